"""What the routes share: models, the batcher, the detector; and a request's way through them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from glassformer.serve.answers import RefusedError
from glassformer.serve.batcher import Batcher, BusyError
from glassformer.serve.detect import Detection, Detector
from glassformer.serve.fields import Fields
from glassformer.serve.languages import canonical
from glassformer.serve.metrics import Metrics
from glassformer.serve.models import Ask, Model, Models, Sentence
from glassformer.serve.security import Keys
from glassformer.serve.segments import Segment, cut, join
from glassformer.serve.settings import ServeSettings
from glassformer.translate import Translation

T = TypeVar("T")
_END = object()


@dataclass(frozen=True)
class Wish:
    """How a request wants to be translated."""

    model: Model | None
    source: str
    target: str
    beams: int
    alternatives: int
    prefix: str


class Service:
    """One per server. `running()` lives as long as the server does."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings = models, settings
        self.metrics = Metrics()
        self.detector = Detector(models.languages)
        self.keys = Keys(settings.api_keys)
        self._batcher: Batcher[Sentence, Translation] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        settings = self.settings
        self._batcher = Batcher(
            self.models.translate,
            size=settings.batch,
            budget=settings.batch_characters,
            queue=settings.queue,
            workers=settings.workers,
            linger=settings.linger,
            on_batch=self.metrics.batches.observe,
        )
        self.metrics.waiting.set_function(lambda: self.batcher.waiting)
        yield
        await self._batcher.close()

    @property
    def batcher(self) -> Batcher[Sentence, Translation]:
        if self._batcher is None:
            raise BusyError("the server is starting")
        return self._batcher

    def wish(self, fields: Fields, source: str, target: str) -> Wish:
        """The options of a request, checked."""
        model = self.models.choose(source, target, fields.text("model"))
        own = model.translator.bundle.config.search.beams if model else 1
        alternatives = fields.number("alternatives", 0, 0, self.settings.alternatives)
        beams = fields.number("beams", own, 1, max(own, self.settings.beams))
        if alternatives:  # two beams may say the same: one more than needed
            beams = max(beams, alternatives + 2)
        prefix = fields.text("prefix")
        self.check_texts([prefix])
        return Wish(model, source, target, beams, alternatives, prefix)

    def language(self, code: str) -> str:
        """A code in our spelling, if we have the language."""
        found = canonical(code)
        if found not in self.models.languages:
            raise RefusedError(400, f"{code[:40]} is not supported")
        return found

    def check_texts(self, texts: list[str]) -> None:
        limit = self.settings.characters
        if len(texts) > self.settings.texts:
            size, limit = len(texts), self.settings.texts
        else:
            size = max(map(len, texts))
        if size > limit:
            raise RefusedError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")

    def detect(self, texts: list[str]) -> list[Detection]:
        return self.detector.detect("\n".join(texts))

    async def translate(self, texts: list[str], wish: Wish) -> list[tuple[str, list[str]]]:
        """Each text's translation and its alternatives."""
        if wish.model is None:
            return [(text, []) for text in texts]
        whole = bool(wish.prefix)  # a forced beginning belongs to one sentence
        parts = [_whole(text) if whole else cut(text) for text in texts]
        sentences = [
            Sentence(segment.text, wish.prefix) for text in parts for segment in text if segment.words
        ]
        if len(sentences) > self.settings.sentences:
            raise RefusedError(
                400,
                f"Invalid request: request ({len(sentences)} sentences) exceeds text limit "
                f"({self.settings.sentences})",
            )
        ask = Ask(wish.model.name, wish.beams, wish.beams if wish.alternatives else 1, whole)
        found = await self.batcher.submit(ask, sentences, [len(sentence.text) for sentence in sentences])
        for one in found:
            if any(note.kind == "error" for note in one.notes):
                raise RuntimeError(f"a sentence failed: {one.notes}")
        self.metrics.characters.inc(sum(map(len, texts)))
        results = iter(found)
        return [_assemble(text, results, wish) for text in parts]

    async def stream(self, text: str, wish: Wish) -> AsyncIterator[dict[str, Any]]:
        """Segment after segment as it grows: {"place", "source", "before", "text", "done"}."""
        parts = _whole(text) if wish.prefix else cut(text)
        for place, segment in enumerate(parts):
            event = {"place": place, "source": segment.text, "before": segment.before}
            if wish.model is None or not segment.words:
                yield {**event, "text": segment.text, "words": False, "done": True}
                continue
            steps = wish.model.translator.stream(segment.text, beams=wish.beams, prefix=wish.prefix)
            said = ""
            while (step := await self.batcher.call(_next, steps)) is not _END:
                said = str(step)
                yield {**event, "text": said, "words": True, "done": False}
            yield {**event, "text": said, "words": True, "done": True}
        self.metrics.characters.inc(len(text))

    async def within_limits(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """Give up when the time is over or the client has gone; what waited in the queue goes too."""
        task = asyncio.create_task(work)
        gone = asyncio.create_task(_hang_up(request))
        try:
            await asyncio.wait(
                {task, gone}, timeout=self.settings.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if task.done():
                return task.result()
            if gone.done():
                raise RefusedError(499, "the client has gone")
            raise TimeoutError
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _next(steps: Iterator[str]) -> object:
    return next(steps, _END)


def _whole(text: str) -> list[Segment]:
    core = text.strip()
    return [Segment(core, "", any(map(str.isalnum, core)))]


def _assemble(segments: list[Segment], results: Iterator[Translation], wish: Wish) -> tuple[str, list[str]]:
    """A text from its sentences; the n-th alternative takes each sentence's n-th, or its best."""
    ranked = []
    for segment in segments:
        if segment.words:
            one = next(results)
            ranked.append([one.text, *(other.text for other in one.alternatives)])
        else:
            ranked.append([segment.text])
    texts = [
        join(segments, [ways[min(rank, len(ways) - 1)] for ways in ranked], wish.target)
        for rank in range(min(wish.alternatives + 1, max(map(len, ranked), default=1)))
    ]
    best = texts[0] if texts else ""
    return best, list(dict.fromkeys(text for text in texts[1:] if text != best))
