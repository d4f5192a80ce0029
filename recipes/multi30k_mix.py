"""Translated training text that is near the true one but not it: `python multi30k_mix.py` writes mix.tsv.

Reads multi30k/train.lc.norm.tok.{en,de} and, line by line beside them, back-beam.en and back-sample.en (what
the German lines became in English) and forth.de (what the English lines became in German). What comes out
holds a true side and a translated one each (data diversification, Nguyen et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

ENGLISH, GERMAN = 50, 60
"""how near a translation must be to the true line, in chrF"""


def lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8").split("\n")[:-1]


def mix() -> Iterator[tuple[str, str]]:
    chrf = CHRF()

    def near(made: str, true: str, least: float) -> bool:
        return made != true and chrf.sentence_score(made, [true]).score >= least

    names = ("multi30k/train.lc.norm.tok.en", "multi30k/train.lc.norm.tok.de")
    files = [lines(name) for name in (*names, "back-beam.en", "back-sample.en", "forth.de")]
    for english, german, beam, sample, forth in zip(*files, strict=True):
        if near(beam, english, ENGLISH):
            yield beam, german
        if sample != beam and near(sample, english, ENGLISH):
            yield sample, german
        if near(forth, german, GERMAN):
            yield english, forth


if __name__ == "__main__":
    Path("mix.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in mix()), "utf-8")
