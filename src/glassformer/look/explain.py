"""`glass explain`: the walk through the model, for the terminal and for files.

    explain(translator, "A sentence.", step=1).print(language="zh")

The same stages stand in part 6 of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from glassformer.errors import RequestError
from glassformer.look.page import texts
from glassformer.look.run import Run, search, transformer_of
from glassformer.look.walk import Stage, walk
from glassformer.translate import Translator

if TYPE_CHECKING:
    from rich.console import Console

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class Explanation:
    """A sentence, its translation, and every stage on the way to one of its words."""

    source_pieces: list[str]
    target_pieces: list[str]
    translation: str
    step: int
    """which token of the translation is being chosen, from 1"""
    stages: list[Stage]

    def shown(self, all_layers: bool = False) -> Iterator[tuple[str, list[Stage]]]:
        """Stages by part (`encoder.0`, …); of each stack the first layer only, unless all are wanted."""
        for part, stages in groupby(self.stages, key=lambda stage: ".".join(stage.place.split(".")[:2])):
            if all_layers or not part.partition(".")[2].isdigit() or part.endswith(".0"):
                yield part, list(stages)

    def lines(self, language: Language = "en", all_layers: bool = False) -> Iterator[str]:
        """Plain text."""
        say = _Words(language)
        for part, stages in self.shown(all_layers):
            yield f"\n{say.part(part)}"
            for stage in stages:
                yield f"  {say.stage(stage)}:  {stage.equation}"
                yield f"      {say(f'about_{stage.key}')}"
                yield f"      {shape_of(stage)}"
                yield f"      {numbers_of(stage, self.step - 1)}"
        yield f"\n{self.conclusion(language)}"

    def conclusion(self, language: Language = "en") -> str:
        said = " ".join(self.target_pieces[: self.step - 1]) or "—"
        chosen = self.target_pieces[self.step - 1]
        return {
            "en": f"After {said} the word chosen is {chosen}: the whole translation is {self.translation}",
            "zh": f"在 {said} 之后选出的词是 {chosen}；整句译文是 {self.translation}",
        }[language]

    def print(
        self, language: Language = "en", all_layers: bool = False, console: Console | None = None
    ) -> None:
        """In colour on a terminal, in plain text elsewhere."""
        from rich.console import Console
        from rich.padding import Padding
        from rich.text import Text

        console = console or Console(highlight=False)
        say = _Words(language)
        console.print(Text(f"{' '.join(self.source_pieces)}  →  {' '.join(self.target_pieces)}", "bold"))
        for part, stages in self.shown(all_layers):
            console.print(Text(f"\n{say.part(part)}", "bold cyan"))
            for stage in stages:
                console.print(
                    Padding(Text.assemble((say.stage(stage), "bold"), "   ", stage.equation), (0, 2))
                )
                about = Text(f"{say(f'about_{stage.key}')}  {shape_of(stage)}", "dim")
                console.print(Padding(about, (0, 4)))
                console.print(Padding(Text(numbers_of(stage, self.step - 1), "green"), (0, 4)))
        console.print(Text(f"\n{self.conclusion(language)}", "bold"))


class _Words:
    """The table of texts in one language."""

    def __init__(self, language: Language) -> None:
        if language not in texts():
            raise RequestError(f"language = {language!r}: choose {' | '.join(texts())}")
        self.table = texts()[language]

    def __call__(self, key: str, **values: Any) -> str:
        return self.table[key].format(**values)

    def part(self, name: str) -> str:
        stack, _, number = name.partition(".")
        if stack == "output":
            return self("part_output")
        if not number:
            return self(f"part_{stack}_end")
        if number == "embedding":
            return self(f"part_{stack}_embedding")
        return self(f"part_{stack}_layer", layer=int(number) + 1)

    def stage(self, stage: Stage) -> str:
        sublayer = stage.place.split(".")[2:]
        name = self(f"stage_{stage.key}")
        return f"{self(f'sublayer_{sublayer[0]}')} · {name}" if sublayer else name


def shape_of(stage: Stage) -> str:
    """Such as `B × H × T × S = 1 × 4 × 3 × 7`."""
    return f"{' × '.join(stage.axes.split())} = {' × '.join(map(str, stage.shape))}"


def numbers_of(stage: Stage, row: int) -> str:
    """The first numbers: of this row in the decoder, of the first token in the encoder."""
    shown = stage.numbers_TX[row if stage.side == "target" else 0].tolist()
    if stage.key == "ids":
        return " ".join(str(int(number)) for number in stage.numbers_TX[:, 0].tolist())
    more = " …" if stage.shape[-1] > len(shown) else ""
    return "  ".join("−∞" if x == float("-inf") else f"{x:.4f}" for x in shown).replace("-", "−") + more


def explain(translator: Translator, text: str, *, step: int = 1, beams: int | None = None) -> Explanation:
    """Walk through the model for one sentence, up to the choice of token number `step` (from 1)."""
    run: Run = search(translator, text, beams, "", frozenset())
    if not 1 <= step <= len(run.said):
        raise RequestError(f"there is no step {step}: the translation has the steps 1 to {len(run.said)}")
    tokenizers, vocabulary = translator.bundle.tokenizers, translator.bundle.model.vocabulary
    source = [*run.source, vocabulary.eos]
    return Explanation(
        tokenizers.source.pieces(source),
        tokenizers.target.pieces(run.said),
        tokenizers.target.decode(run.best.tokens),
        step,
        walk(transformer_of(translator), source, [vocabulary.start, *run.said[:-1]]),
    )
