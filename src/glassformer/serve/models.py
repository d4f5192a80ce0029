"""The bundles of a server: which one for which pair of languages, and how they are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.errors import RequestError
from glassformer.serve.languages import canonical, name
from glassformer.translate import Options, Translation, Translator


@dataclass(frozen=True)
class Model:
    """A bundle under the name by which requests may choose it."""

    name: str
    translator: Translator
    source: str
    target: str

    def describe(self) -> dict[str, object]:
        search = self.translator.bundle.config.search
        return {"name": self.name, "source": self.source, "target": self.target, "beams": search.beams}


@dataclass(frozen=True)
class Ask:
    """What sentences must have in common to be translated in one batch."""

    model: str
    beams: int
    n_best: int
    forced: bool


@dataclass(frozen=True)
class Sentence:
    text: str
    prefix: str = ""


class Models:
    """Chosen by name, or by languages. A name is looked up here and nowhere else: it is never a path."""

    def __init__(self, models: Iterable[Model], may_be_none: bool = False) -> None:
        self.by_name: dict[str, Model] = {}
        for model in models:
            if model.name in self.by_name:
                raise RequestError(f"two models are called {model.name}: rename one of the directories")
            self.by_name[model.name] = model
        if not self.by_name and not may_be_none:
            raise RequestError("a server needs at least one model: glass serve --model DIRECTORY")

    @staticmethod
    def of(translators: Iterable[Translator], may_be_none: bool = False) -> Models:
        """Named after their directories; a training run's bundle after the run."""
        found: list[Model] = []
        for translator in translators:
            config, path = translator.bundle.config, translator.bundle.path
            called = "model" if path is None else path.parent.name if path.name == "model" else path.name
            taken = {model.name for model in found}
            called = next(
                candidate
                for number in range(1, len(taken) + 2)
                if (candidate := called if number == 1 else f"{called}-{number}") not in taken
            )
            source, target = canonical(config.source_language), canonical(config.target_language)
            found.append(Model(called, translator, source, target))
        return Models(found, may_be_none)

    def __iter__(self) -> Iterable[Model]:
        return iter(self.by_name.values())

    @property
    def languages(self) -> list[str]:
        """Every language that goes in or comes out, sources first."""
        models = self.by_name.values()
        return list(dict.fromkeys([*(model.source for model in models), *(model.target for model in models)]))

    def targets(self, source: str) -> list[str]:
        """What a language can be translated into; itself included, as LibreTranslate does."""
        found = {model.target for model in self.by_name.values() if model.source == source}
        return sorted({*found, source})

    def choose(self, source: str, target: str, called: str = "") -> Model | None:
        """The model for two languages; None if they are the same: the text stays as it is."""
        if called:
            model = self.by_name.get(called)
            if model is None:
                raise RequestError(f"there is no model of this name; there are {', '.join(self.by_name)}")
            if (model.source, model.target) != (source, target):
                raise RequestError(f"{called} translates from {model.source} to {model.target}")
            return model
        for model in self.by_name.values():
            if (model.source, model.target) == (source, target):
                return model
        if source == target:
            return None
        raise RequestError(
            f"{name(target)} ({target}) is not available as a target language from {name(source)} ({source})"
        )

    def translate(self, ask: Ask, sentences: Sequence[Sentence]) -> list[Translation]:
        """One batch; runs in a worker thread."""
        options: Options = {"beams": ask.beams, "n_best": ask.n_best}
        if ask.forced:
            options["prefix"] = [sentence.prefix for sentence in sentences]
        translator = self.by_name[ask.model].translator
        return translator.translate([sentence.text for sentence in sentences], **options)
