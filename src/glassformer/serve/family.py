"""Routes for models that do not translate: /generate, /classify, /tag, /fill, each if a model is there."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from glassformer.bundle import Bundle
from glassformer.errors import GlassformerError, RequestError
from glassformer.fill import Filler
from glassformer.generate import Generator, stream
from glassformer.label import Labeller
from glassformer.model.families import Reader
from glassformer.serve import schemas
from glassformer.serve.answers import RefusedError
from glassformer.serve.batcher import BusyError
from glassformer.serve.fields import Fields
from glassformer.serve.libretranslate import allowed_fields, service_of

MOST_TOKENS, MOST_BEAMS, MOST_LABELS = 512, 16, 100
_END = object()


class Readers:
    """The bundles that do not translate, by what they do and by name."""

    def __init__(self, bundles: Iterable[Bundle[Reader]]) -> None:
        self.generators: dict[str, Generator] = {}
        self.classifiers: dict[str, Labeller] = {}
        self.taggers: dict[str, Labeller] = {}
        self.fillers: dict[str, Filler] = {}
        for bundle in bundles:
            task, path = bundle.config.task, bundle.path
            called = "model" if path is None else path.parent.name if path.name == "model" else path.name
            if called in [name for name, _ in self.routes()]:
                raise RequestError(f"two models are called {called}: rename one of the directories")
            if task == "language_model":
                self.generators[called] = Generator(bundle)
            elif task == "tag":
                self.taggers[called] = Labeller(bundle)
            elif task == "masked_language_model":
                self.fillers[called] = Filler(bundle)
            else:
                self.classifiers[called] = Labeller(bundle)

    def __len__(self) -> int:
        return len(self.routes())

    def routes(self) -> list[tuple[str, str]]:
        """Each model's name and the route that asks it."""
        kinds: dict[str, Iterable[str]] = {
            "generate": self.generators,
            "classify": self.classifiers,
            "tag": self.taggers,
            "fill": self.fillers,
        }
        return [(name, route) for route, models in kinds.items() for name in models]


def router_for(readers: Readers) -> APIRouter:
    """A list of the models there are, and their routes."""
    router = APIRouter()
    router.add_api_route("/family", family, methods=["GET"], **schemas.family)
    if readers.generators:
        router.add_api_route("/generate", generate, methods=["POST"], **schemas.generate)
    if readers.classifiers:
        router.add_api_route("/classify", classify, methods=["POST"], **schemas.classify)
    if readers.taggers:
        router.add_api_route("/tag", tag, methods=["POST"], **schemas.tag)
    if readers.fillers:
        router.add_api_route("/fill", fill, methods=["POST"], **schemas.fill)
    return router


def _readers(request: Request) -> Readers:
    found: Readers = request.app.state.family
    return found


async def family(request: Request) -> JSONResponse:
    """The models that do not translate, and what each of them does."""
    return JSONResponse([{"name": name, "task": route} for name, route in _readers(request).routes()])


def _chosen(models: dict[str, Any], fields: Fields) -> Any:
    called = fields.text("model")
    if called and called not in models:
        raise RefusedError(400, f"there is no model of this name; there are {', '.join(models)}")
    return models[called] if called else next(iter(models.values()))


async def generate(request: Request) -> Response:
    """Go on with a text; with `stream`, show it as it grows (server-sent events)."""
    service, fields = service_of(request), await allowed_fields(request)
    prompt = fields.text("prompt")
    service.check_texts([prompt])
    options: dict[str, Any] = {
        "max_tokens": fields.number("max_tokens", 60, 1, MOST_TOKENS),
        "beams": fields.number("beams", 1, 1, MOST_BEAMS),
        "no_repeat_ngram": fields.number("no_repeat_ngram", 0, 0, 32),
        "seed": fields.number("seed", 0, 0, 2**31 - 1),
        "sampling": fields.flag("sample"),
    }
    if options["sampling"]:
        options |= {
            "temperature": fields.real("temperature", 1.0, 0.01, 100.0),
            "top_k": fields.number("top_k", 0, 0, 10**6),
            "top_p": fields.real("top_p", 1.0, 0.001, 1.0),
            "beams": 1,
        }
    generator = _chosen(_readers(request).generators, fields)
    if fields.flag("stream"):
        events = _events(service, generator, prompt, options)
        return StreamingResponse(events, media_type="text/event-stream")
    work = partial(generator.generate, prompt, **options)
    found = await service.within_limits(request, service.batcher.call(work))
    return JSONResponse(dataclasses.asdict(found[0]))


async def _events(
    service: Any, generator: Generator, prompt: str, options: dict[str, Any]
) -> AsyncIterator[bytes]:
    """The answer has begun, so trouble becomes an event too."""
    steps = stream(generator, prompt, **options)
    try:
        async with asyncio.timeout(service.settings.seconds):
            while (part := await service.batcher.call(next, steps, _END)) is not _END:
                yield _event({"text": part, "done": False})
        yield _event({"text": "", "done": True})
    except GlassformerError as error:
        yield _event({"error": str(error)})
    except (TimeoutError, BusyError):
        yield _event({"error": "Slowdown: this took too long; ask for less, or try again later"})


def _event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


async def classify(request: Request) -> JSONResponse:
    """The likeliest labels of a text, or of each of a list."""
    service, fields = service_of(request), await allowed_fields(request)
    texts, several = fields.texts("q")
    service.check_texts(texts)
    count = fields.number("n_best", 3, 1, MOST_LABELS)
    work = partial(_chosen(_readers(request).classifiers, fields).classify, texts, count)
    found = await service.within_limits(request, service.batcher.call(work))
    labels = [[dataclasses.asdict(label) for label in row] for row in found]
    return JSONResponse({"labels": labels if several else labels[0]})


async def tag(request: Request) -> JSONResponse:
    """The label of each word of a text, or of each of a list."""
    service, fields = service_of(request), await allowed_fields(request)
    texts, several = fields.texts("q")
    service.check_texts(texts)
    work = partial(_chosen(_readers(request).taggers, fields).tag, texts)
    found = await service.within_limits(request, service.batcher.call(work))
    words = [[dataclasses.asdict(word) for word in row] for row in found]
    return JSONResponse({"words": words if several else words[0]})


async def fill(request: Request) -> JSONResponse:
    """What may stand in each blank (___) of a text, the likeliest first."""
    service, fields = service_of(request), await allowed_fields(request)
    text = fields.text("q")
    service.check_texts([text])
    count = fields.number("n_best", 3, 1, MOST_LABELS)
    work = partial(_chosen(_readers(request).fillers, fields).fill, text, count)
    found = await service.within_limits(request, service.batcher.call(work))
    return JSONResponse({"blanks": [[dataclasses.asdict(guess) for guess in row] for row in found]})
