from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
import torch

from glassformer.errors import DataError
from glassformer.model.build import build_model
from glassformer.model.vectors import Coverage, load_vectors, words_of

PLAIN = "the 1 2 3\ncat -0.5 1e-2 3.25\nsat 7 8 9\n"
WORDS = ["</s>", "the", "mat", "cat", "<pad>"]


def load(
    path: Path, words: list[str] = WORDS, width: int = 3, **options: float
) -> tuple[torch.Tensor, Coverage]:
    weight_VD = torch.full((len(words), width), -1.0)
    coverage = load_vectors(path, words, weight_VD, **options)  # type: ignore[arg-type]
    return weight_VD, coverage


def file(tmp_path: Path, text: str | bytes, name: str = "vectors.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def test_rows_of_known_words_are_filled_and_the_others_left(tmp_path: Path) -> None:
    weight_VD, coverage = load(file(tmp_path, PLAIN))
    assert weight_VD.tolist() == [
        [-1, -1, -1],
        [1, 2, 3],
        [-1, -1, -1],
        [-0.5, pytest.approx(0.01), 3.25],
        [-1, -1, -1],
    ]
    assert (coverage.found, coverage.total, coverage.width, coverage.vectors) == (2, 5, 3, 3)
    assert coverage.missing == ("</s>", "mat", "<pad>")
    assert coverage.duplicates == 0


@pytest.mark.parametrize(
    "text",
    [
        f"3 3\n{PLAIN}",  # word2vec, fastText
        f"3 3 \n{PLAIN}".replace("\n", " \n"),  # with spaces at the ends of lines
        "\ufeff" + PLAIN,
        "\ufeff3 3\n" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(" ", "\t"),
        PLAIN.rstrip("\n"),
        PLAIN + "\n\n",
    ],
)
def test_headers_marks_and_line_ends_make_no_difference(tmp_path: Path, text: str) -> None:
    expected, counted = load(file(tmp_path, PLAIN))
    found, coverage = load(file(tmp_path, text))
    assert torch.equal(found, expected)
    assert (coverage.found, coverage.vectors) == (counted.found, counted.vectors)


def test_archives_are_read_as_they_are(tmp_path: Path) -> None:
    expected, _ = load(file(tmp_path, PLAIN))
    for name, data in (("v.gz", gzip.compress(PLAIN.encode())), ("v.bz2", bz2.compress(PLAIN.encode()))):
        assert torch.equal(load(file(tmp_path, data, name))[0], expected)
        assert torch.equal(load(file(tmp_path, data, "no-suffix"))[0], expected)


def test_the_first_of_duplicates_counts(tmp_path: Path) -> None:
    weight_VD, coverage = load(file(tmp_path, PLAIN + "the 9 9 9\nthe 8 8 8\nother 1 1 1\nother 2 2 2\n"))
    assert weight_VD[1].tolist() == [1, 2, 3]
    assert coverage.duplicates == 2
    assert "2 duplicates" in str(coverage)


def test_pieces_that_are_one_word_share_its_vector_and_padding_stays_zero(tmp_path: Path) -> None:
    pieces = ["</s>", "<unk>", "▁the", "the", "▁cat", "<0x0A>", "▁", "<pad>"]
    path = file(tmp_path, PLAIN + "</s> 1 1 1\n<pad> 1 1 1\n<0x0A> 1 1 1\n")
    weight_VD = torch.zeros(8, 3)
    coverage = load_vectors(path, words_of(pieces), weight_VD)
    assert weight_VD.any(1).tolist() == [False, False, True, True, True, False, False, False]
    assert (coverage.found, coverage.missing) == (3, ())
    weight_VD = torch.zeros(8, 3)
    load_vectors(path, pieces, weight_VD, pad=7)
    assert weight_VD.any(1).tolist() == [True, False, False, True, False, True, False, False]


def test_words_may_hold_spaces_and_odd_characters(tmp_path: Path) -> None:
    text = "the 1 2 3\n. . . 4 5 6\na\u00a0b 7 8 9\n \u3000 1 1 1\n\u2028 2 2 2\n12 3 4 5\n"
    weight_VD, coverage = load(file(tmp_path, text), [". . .", "a\u00a0b", "\u2028", "12"])
    assert weight_VD.tolist() == [[4, 5, 6], [7, 8, 9], [2, 2, 2], [3, 4, 5]]
    assert coverage.missing == ()


def test_a_line_without_a_word_is_passed_over(tmp_path: Path) -> None:
    _, coverage = load(file(tmp_path, PLAIN + " 1 2 3\n"))
    assert coverage.found == 2


def test_bytes_that_are_not_utf_8_harm_only_their_own_word(tmp_path: Path) -> None:
    weight_VD, coverage = load(file(tmp_path, b"caf\xe9 1 1 1\n" + PLAIN.encode()))
    assert coverage.found == 2
    assert weight_VD[1].tolist() == [1, 2, 3]


def test_a_model_takes_them_and_keeps_its_precision(tmp_path: Path) -> None:
    from glassformer.config import ModelConfig, VocabularyConfig

    model = build_model(
        ModelConfig(1, 1, 4, 8, 2, scale_embeddings=True), VocabularyConfig(5, 5, True, 0, 1, 4, 4, 4)
    ).double()
    path = file(tmp_path, "the 2 4 6 8\n<pad> 1 1 1 1\n")
    coverage = load_vectors(path, WORDS, model.source_embedding.weight_VD, pad=4, factor=0.5)
    assert coverage.found == 1
    embedded = model.source_embedding.weight_VD
    assert embedded.dtype == torch.float64
    assert embedded[1].tolist() == [1, 2, 3, 4]
    assert not embedded[4].any()
    assert embedded.requires_grad
    assert embedded.is_leaf


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "the 1 2\ncat 3 4\n",
            r"line 1: .* 2 numbers, .* 3: set model\.width = 2, or take vectors of width 3",
        ),
        ("2 300\nthe 1 2\n", r"line 1: .* 300 numbers, .* set model\.width = 300"),
        ("the 1 2 3 4\n", r"line 1: .* 4 numbers"),
        (PLAIN + "mat 1 2\n", r"line 4: 2 numbers instead of 3"),
        (PLAIN + "mat 1 2 3 4\n", r"line 4: 4 numbers instead of 3"),
        (PLAIN + "other 1 2", r"line 4: 2 numbers instead of 3"),
        ("the 1 2 3\nmat 1 x 3\n", r"line 2: 'x' is not a number"),
        ("the 1 2 3\nmat 1 0,5 3\n", r"line 2: '0,5'"),
        ("the 1 2 3\nmat 1 nan 3\n", r"line 2: 'nan'"),
        ("the 1 2 3\nmat 1 1e999 3\n", r"line 2: '1e999'"),
        ("4 3\n" + PLAIN, r"promises 4 vectors, but there are 3"),
        ("", "no vectors"),
        ("\n\n", "no vectors"),
        (b"2 3\nthe \x00\x80\x3f\x00\x00\xff\xfe\n", r"line 2: .* binary"),
        ("the " + "1 " * 600_000, "line 1: a line of more than 1 MiB"),
        (b"PK\x03\x04rest", "zip archive"),
        (gzip.compress(PLAIN.encode() * 1000)[:-20], "damaged"),
        (bz2.compress(PLAIN.encode() * 1000)[:-20], "damaged"),
        (b"BZh9 is no archive", "damaged"),
        (b"\x1f\x8bno archive", "damaged"),
    ],
)
def test_wrong_files_are_named_and_change_nothing(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = file(tmp_path, text)
    weight_VD = torch.zeros(len(WORDS), 3)
    with pytest.raises(DataError, match=words) as caught:
        load_vectors(path, WORDS, weight_VD)
    assert str(path) in str(caught.value)
    assert not weight_VD.any()


def test_a_missing_file_and_too_many_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "nothing.txt")
    with pytest.raises(DataError, match="5 words for an embedding of 4 rows"):
        load_vectors(file(tmp_path, PLAIN), WORDS, torch.zeros(4, 3))
    load_vectors(file(tmp_path, PLAIN), WORDS[:4], torch.zeros(5, 3))  # the padding stands after the words


def test_the_report_reads_well() -> None:
    missing = tuple(f"w{n}" for n in range(4188))
    report = str(Coverage(Path("glove.txt"), 3812, missing, 300, 400_000, 0))
    assert report.splitlines() == [
        "found 3,812 of 8,000 words (47.6%) among 400,000 vectors of width 300 in glove.txt",
        "missing: w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 and 4,178 more",
    ]
    assert str(Coverage(Path("v"), 0, (), 3, 1, 0)).startswith("found 0 of 0 words (0.0%)")
