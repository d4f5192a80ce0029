"""Corpus scores with intervals, the paired test, the saved sentences and the command."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from glassformer.cli.app import app
from glassformer.errors import DataError, RequestError
from glassformer.evaluate import corpus_bleu, escape, evaluate

# The example of sacreBLEU's README: three sentences, two references each.
SAID = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
RIGHT = [
    ["The dog bit the man.", "The dog had bit the man."],
    ["It was not unexpected.", "No one was surprised."],
    ["The man bit him first.", "The man had bitten the dog."],
]


@pytest.mark.parametrize(
    ("tokenize", "expected"), [("13a", 48.530827), ("intl", 43.916235), ("none", 49.191957)]
)
def test_sacrebleus_published_example(tokenize: str, expected: float) -> None:
    score = corpus_bleu(SAID, RIGHT, tokenize=tokenize)
    assert score.value == pytest.approx(expected, abs=5e-7)
    assert f"nrefs:2|case:mixed|eff:no|tok:{tokenize}|smooth:exp" in score.signature


def test_the_default_tokenizer_is_13a_and_chinese_has_its_own() -> None:
    assert corpus_bleu(SAID, RIGHT).value == pytest.approx(48.530827, abs=5e-7)
    assert "tok:zh" in corpus_bleu(["我喜欢猫。"], ["我喜欢猫。"], "zh-Hans").signature
    assert corpus_bleu(["我喜欢猫。"], ["我喜欢猫。"], "zh").value == pytest.approx(100)


def noisy(seed: int, loss: float, lines: int = 120) -> tuple[list[str], list[str]]:
    """Sentences, and the same ones with words missing."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(50)]
    right = [" ".join(rng.choices(words, k=rng.randint(5, 15))) for _ in range(lines)]
    said = [" ".join(w for w in line.split() if rng.random() > loss) for line in right]
    return said, right


def test_intervals_are_sacrebleus() -> None:
    said, right = noisy(1, 0.2)
    ours = evaluate(said, right, metrics=["bleu"], bootstrap=200)["bleu"]
    theirs = BLEU(force=True).corpus_score(said, [right], n_bootstrap=200)
    assert ours.value == pytest.approx(theirs.score)
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, rel=1e-5)
    assert ours.low < ours.value < ours.high


def test_the_paired_test_tells_a_difference_from_chance() -> None:
    better, right = noisy(2, 0.1)
    rng = random.Random(3)
    worse = [" ".join(w for w in line.split() if rng.random() > 0.2) for line in better]
    metrics = ["bleu", "word_error"]
    real = evaluate(better, right, metrics=metrics, against=worse, bootstrap=300).comparisons
    assert all(one.p_value < 0.01 for one in real)
    assert real[0].difference > 0 > real[1].difference
    assert real[0].low > 0

    # Two systems that lose words alike: of 20 such pairs, few may look different.
    small = 0
    for seed in range(20):
        first, right = noisy(seed, 0.15, lines=60)
        other = random.Random(100 + seed)
        second = [" ".join(w for w in line.split() if other.random() > 0.15) for line in right]
        report = evaluate(first, right, metrics=["word_error"], against=second, bootstrap=200)
        small += report.comparisons[0].p_value < 0.05
    assert small <= 4


def test_a_system_does_not_differ_from_itself() -> None:
    said, right = noisy(4, 0.2, lines=30)
    for comparison in evaluate(said, right, against=said, bootstrap=50).comparisons:
        assert (comparison.difference, comparison.p_value) == (0, 1)


def test_a_seed_fixes_the_numbers() -> None:
    said, right = noisy(5, 0.2, lines=40)
    first = evaluate(said, right, metrics=["chrf"], bootstrap=50, seed=1)
    assert first == evaluate(said, right, metrics=["chrf"], bootstrap=50, seed=1)
    assert first.scores != evaluate(said, right, metrics=["chrf"], bootstrap=50, seed=2).scores


def test_no_bootstrap_means_no_interval_and_no_test() -> None:
    report = evaluate(SAID, RIGHT, against=SAID, bootstrap=0)
    assert report["bleu"].low is None
    assert report.comparisons == ()
    assert [score.name for score in report.against] == ["bleu", "chrf", "ter"]


@pytest.mark.parametrize(
    ("said", "right", "message"),
    [
        (["a"], ["a", "b"], r"h\.txt has 1 lines, r\.txt has 2"),
        ([], [], r"h\.txt and r\.txt are empty"),
        (["a", "b"], ["a", []], r"r\.txt, line 2: no reference"),
    ],
)
def test_input_that_can_not_be_scored(said, right, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(said, right, names=("h.txt", "r.txt", ""))


def test_requests_that_make_no_sense() -> None:
    with pytest.raises(RequestError, match="unknown metric blue: there are bleu, chrf"):
        evaluate(SAID, RIGHT, metrics=["blue"])
    with pytest.raises(RequestError, match="no metric was asked for"):
        evaluate(SAID, RIGHT, metrics=[])
    with pytest.raises(RequestError, match="bootstrap = -1 must not be negative"):
        evaluate(SAID, RIGHT, bootstrap=-1)
    with pytest.raises(RequestError, match=r"ignore = '\[0' is no regular expression: unterminated"):
        evaluate(SAID, RIGHT, ignore="[0")


def test_what_is_ignored_counts_on_no_side() -> None:
    said, right = ["AH0 V", "DH AH1"], [["AO1 V", "AH1 V"], ["DH AH"]]
    assert evaluate(said, right, metrics=["exact"], bootstrap=0)["exact"].value == 0
    report = evaluate(
        said, right, metrics=["exact"], ignore="[0-2]", against=["AH V", "DH IY0"], bootstrap=10
    )
    assert (report["exact"].value, report.against[0].value) == (100, 50)
    assert report.notes == ["what matches [0-2] does not count"]
    assert [sentence.hypothesis for sentence in report.sentences] == ["AH V", "DH AH"]


def test_thirteen_thousand_words_of_phones() -> None:
    rng = random.Random(6)
    phones = ["AH", "B", "K", "D", "IY", "S", "T", "N", "OW", "R"]
    right = [[" ".join(rng.choices(phones, k=rng.randint(2, 12)))] for _ in range(13_000)]
    said = [row[0] if rng.random() < 0.8 else row[0] + " Z" for row in right]
    report = evaluate(said, right, metrics=["phone_error", "line_error"], bootstrap=100)
    assert report["line_error"].value == pytest.approx(20, abs=1.5)
    assert report["phone_error"].value == pytest.approx(20 / 7, abs=0.3)


def test_sentences_are_saved_and_come_back(tmp_path: Path) -> None:
    said = ["tab\there", "back\\slash", "carriage\rreturn"]
    report = evaluate(said, RIGHT, metrics=["bleu", "exact"], against=SAID, bootstrap=0)
    report.save(tmp_path / "s.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert [row["hypothesis"] for row in rows] == said
    assert rows[0]["against_scores"]["exact"] == 100
    assert rows[0]["references"] == RIGHT[0]

    report.save(tmp_path / "s.tsv")
    lines = (tmp_path / "s.tsv").read_bytes().decode().split("\n")[:-1]
    header = lines[0].split("\t")
    assert header[:4] == ["line", "hypothesis", "against", "references"]
    assert [line.split("\t")[1] for line in lines[1:]] == [escape(text) for text in said]
    assert {len(line.split("\t")) for line in lines} == {len(header)}

    with pytest.raises(RequestError, match=r"s\.txt: sentences are saved as"):
        report.save(tmp_path / "s.txt")
    with pytest.raises(DataError, match=r"nowhere.s\.tsv: can't be written"):
        report.save(tmp_path / "nowhere" / "s.tsv")


def run(capsys, *arguments: object) -> str:
    app([str(argument) for argument in arguments], result_action="return_value")
    return capsys.readouterr().out


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "h.txt").write_text("\n".join(SAID) + "\n")
    (tmp_path / "r1.txt").write_text("".join(row[0] + "\n" for row in RIGHT))
    (tmp_path / "r2.txt").write_text("".join(row[1] + "\n" for row in RIGHT))
    (tmp_path / "both.txt").write_text("".join("\t".join(row) + "\n" for row in RIGHT))
    return tmp_path


def test_the_command_scores_files(files: Path, capsys) -> None:
    two = run(
        capsys, "evaluate", "--hypotheses", files / "h.txt", "--reference", files / "r1.txt", files / "r2.txt"
    )
    assert two.startswith("BLEU 48.53 [")
    one = run(
        capsys,
        "evaluate",
        "--hypotheses",
        files / "h.txt",
        "--reference",
        files / "both.txt",
        "--alternatives",
        "\\t",
    )
    assert one == two
    assert "\x1b" not in one


def test_the_command_prints_json_and_saves_sentences(files: Path, capsys) -> None:
    arguments = (
        "--hypotheses",
        files / "h.txt",
        "--reference",
        files / "r1.txt",
        "--against",
        files / "r2.txt",
    )
    out = run(capsys, "evaluate", *arguments, "--json", "--metric", "exact", "--sentences", files / "s.jsonl")
    found = json.loads(out)
    assert found["scores"][0]["value"] == pytest.approx(100 / 3)
    assert found["comparisons"][0]["second"] == 0
    assert len((files / "s.jsonl").read_text().split("\n")) == 4


def test_the_command_refuses_what_it_can_not_score(files: Path, capsys) -> None:
    with pytest.raises(RequestError, match="either --hypotheses FILE"):
        run(capsys, "evaluate", "--reference", files / "r1.txt")
    with pytest.raises(RequestError, match="--model needs --source"):
        run(capsys, "evaluate", "--reference", files / "r1.txt", "--model", "m")
    (files / "short.txt").write_text("one line\n")
    with pytest.raises(DataError, match=r"h\.txt has 3 lines, .*short\.txt has 1"):
        run(capsys, "evaluate", "--hypotheses", files / "h.txt", "--reference", files / "short.txt")
    with pytest.raises(DataError, match=r"r1\.txt has 3 lines, .*short\.txt has 1"):
        run(
            capsys,
            "evaluate",
            "--hypotheses",
            files / "h.txt",
            "--reference",
            files / "r1.txt",
            files / "short.txt",
        )
    with pytest.raises(RequestError, match=r"sentences are saved as"):
        run(
            capsys,
            "evaluate",
            "--hypotheses",
            files / "h.txt",
            "--reference",
            files / "r1.txt",
            "--sentences",
            "x.csv",
        )


def test_the_command_translates_with_a_model_first(numbers: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "source").write_text("one two three.\nfour five.\n\nsix.\n")
    (tmp_path / "reference").write_text("一二三。\n四五。\n\n七。\n", encoding="utf-8")
    arguments = ("--model", numbers, "--source", tmp_path / "source", "--reference", tmp_path / "reference")
    # Not two beams: two ends of no worth, "" and "四。", may close the search before "四五。" is whole.
    out = run(
        capsys,
        *("evaluate", *arguments, "--beams", 3, "--length-penalty", 0.5, "--bootstrap", 0),
        *("--metric", "bleu", "exact", "--translations", tmp_path / "out", "--json"),
    )
    found = {score["name"]: score for score in json.loads(out)["scores"]}
    assert found["exact"]["value"] == 75
    assert "tok:zh" in found["bleu"]["signature"]  # the model knows its target language
    assert (tmp_path / "out").read_text(encoding="utf-8") == "一二三。\n四五。\n\n六。\n"
    out = run(capsys, "evaluate", *arguments, "--metric", "exact", "--ignore", "[六七]", "--bootstrap", 0)
    assert out.startswith("exact match 100.00")  # six and seven are both nothing now
    (tmp_path / "reference").write_text("一二三。\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"source has 4 lines, .*reference has 1: each line"):
        run(capsys, "evaluate", *arguments)


def test_on_a_terminal_there_is_a_table(files: Path, capsys, monkeypatch) -> None:
    from glassformer.cli import evaluate as command

    monkeypatch.setattr(command.sys.stdout, "isatty", lambda: True, raising=False)
    out = run(
        capsys,
        "evaluate",
        *("--hypotheses", files / "h.txt", "--reference", files / "r1.txt", "--against", files / "r2.txt"),
    )
    assert "95% interval" in out
    assert "paired bootstrap" in out
    assert "tok:13a" in out
