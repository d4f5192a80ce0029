"""Every task, from files to a bundle that is used: one loop, one search, one format."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer import settings
from glassformer.bundle import Bundle, load_reader, weights_of
from glassformer.data.store import build_store
from glassformer.errors import BundleError, ConfigError, DataError, RequestError
from glassformer.fill import Filler
from glassformer.generate import Generator, stream
from glassformer.label import Labeller, accuracy
from glassformer.recipe import Recipe
from glassformer.text.tokenizer import Tokenizer, TokenizerPair, train_tokenizer
from glassformer.text.words import units, word_starts
from glassformer.train.family_feed import NOTHING, BlockFeed, Stream, masked_batch, tagged_batch
from glassformer.train.family_validate import perplexity
from glassformer.train.report import Report
from glassformer.train.run import Result, train

NETWORK = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "width": 32,
    "feed_forward": 48,
    "heads": 2,
    "norm": "pre",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "max_length": 64,
}
TRAIN = {
    "batch_tokens": 256,
    "learning_rate": 0.01,
    "warmup": 10,
    "validate_every": 50,
    "label_smoothing": 0.0,
}
ANIMALS = {"dog": "barks", "cat": "mews", "cow": "moos", "bee": "hums"}


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    animals = draw.choices(list(ANIMALS), k=count)
    return [f"the {draw.choice(['old', 'big', 'red'])} {animal} {ANIMALS[animal]}" for animal in animals]


def labelled(count: int) -> list[tuple[str, str]]:
    texts = [f"{text} {number % 40}" for number, text in enumerate(sentences(count))]
    return [(text, "Farm yard" if "cow" in text else "Elsewhere") for text in texts]


class Kept(Report):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def record(self, entry: Any) -> None:
        self.entries.append(entry)


def run(
    directory: Path,
    task: str,
    corpus: dict[str, Any],
    steps: int = 60,
    report: Report | None = None,
    **changes: Any,
) -> Result:
    mapping = {
        "task": task,
        "model": NETWORK,
        "tokenizer": {"kind": "symbols"},
        "data": {"corpora": [corpus], "hold_out": 20, "max_tokens": 16, "drop_duplicates": False},
        "train": {**TRAIN, "max_steps": steps},
    }
    for section, values in changes.items():
        mapping[section] = {**mapping.get(section, {}), **values}  # type: ignore[dict-item]
    return train(settings.from_mapping(Recipe, mapping), directory, report=report or Report())


def write(path: Path, rows: list[str]) -> str:
    path.write_text("\n".join(rows) + "\n", encoding="utf8")
    return str(path)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    text = write(folder / "text.txt", [*sentences(400), ""])
    return run(folder / "run", "language_model", {"text": text}).path


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked")
    text = write(folder / "text.txt", sentences(400))
    return run(folder / "run", "masked_language_model", {"text": text}).path


def bpe() -> Tokenizer:
    return train_tokenizer("bpe", [*sentences(200), "unbelievable animals"], size=300)


# ---- language models ------------------------------------------------------------------------------------


def test_a_stream_is_all_lines_with_their_ends(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("characters", ["abcdef"])
    pair = TokenizerPair(tokenizer, tokenizer, shared=True)
    lines = ["ab", "c", "def"]
    store = build_store(tmp_path / "store", [[(line, line) for line in lines]], pair)
    whole = np.array([i for line in lines for i in (*tokenizer.encode(line), 0)])
    found = Stream(store, eos=0)
    assert len(found) == len(whole)
    for start in range(len(whole)):
        for end in range(start + 1, len(whole) + 1):
            assert found.part(start, end).tolist() == whole[start:end].tolist()


def test_blocks_cover_the_text_and_are_the_same_whenever_asked(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("symbols", sentences(1))
    pair = TokenizerPair(tokenizer, tokenizer, shared=True)
    texts = sentences(50)
    store = build_store(tmp_path / "store", [[(text, text) for text in texts]], pair)
    feed = BlockFeed(store, pair.vocabulary(), block=8, batch_tokens=24, seed=1)
    again = BlockFeed(store, pair.vocabulary(), block=8, batch_tokens=24, seed=1)
    batches = [feed.batch(0, number) for number in range(feed.count(0))]
    assert sum(batch.tokens for batch in batches) >= len(feed.stream) - 16
    assert torch.equal(again.batch(0, 3).target_out_BT, batches[3].target_out_BT)
    assert not torch.equal(feed.batch(1, 3).target_out_BT, batches[3].target_out_BT)
    first = batches[0]
    assert (first.target_in_BT[:, 0] == pair.vocabulary().start).all()
    assert torch.equal(first.target_in_BT[:, 1:], first.target_out_BT[:, :-1])
    assert len(first.rows([0])) == 1


def test_a_language_model_learns_and_goes_on(language_model: Path) -> None:
    generator = Generator(load_reader(language_model))
    [found] = generator.generate("the red cow")
    assert found.text == "the red cow moos"
    assert found.finished
    assert found.tokens == 1
    beams = generator.generate("the big", beams=4, n_best=2, max_tokens=6)
    assert len(beams) == 2
    assert beams[0].score >= beams[1].score


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "none"])
def test_a_deep_language_model_begins_with_an_ordinary_gradient(tmp_path: Path, positions: str) -> None:
    text, kept = write(tmp_path / "text.txt", sentences(200)), Kept()
    network = {"decoder_layers": 6, "positions": positions}
    result = run(tmp_path / "run", "language_model", {"text": text}, steps=12, report=kept, model=network)
    trained = [entry for entry in kept.entries if entry["kind"] == "train"]
    assert trained[0]["gradient"] < 10
    assert trained[-1]["skipped"] == 0
    vocabulary = load_reader(result.path).config.vocabulary
    assert vocabulary.start == vocabulary.eos


def test_sampling_follows_its_seed_and_streams_the_same_text(language_model: Path) -> None:
    generator = Generator(load_reader(language_model))
    options = {"sampling": True, "top_k": 5, "temperature": 1.2, "max_tokens": 8}
    one, other = (generator.generate("the", seed=3, **options)[0] for _ in range(2))
    assert one == other
    assert "".join(stream(generator, "the", seed=3, **options)) == one.text
    assert len({generator.generate("", seed=seed, **options)[0].text for seed in range(8)}) > 1
    for beams in (1, 3):
        parts = list(stream(generator, "the old", beams=beams))
        assert "".join(parts) == generator.generate("the old", beams=beams)[0].text


def test_generation_says_what_can_not_be(language_model: Path, masked: Path) -> None:
    generator = Generator(load_reader(language_model))
    with pytest.raises(RequestError, match="the prompt has 70 tokens, and this model reads 64"):
        generator.generate("the " * 70)
    with pytest.raises(ConfigError, match="temperature = 0"):
        generator.generate("the", sampling=True, temperature=0)
    with pytest.raises(RequestError, match="max_tokens = 0"):
        generator.generate("the", max_tokens=0)
    with pytest.raises(RequestError, match="continues no texts"):
        Generator(load_reader(masked))


def test_perplexity_is_the_same_however_the_text_is_cut(language_model: Path) -> None:
    bundle = load_reader(language_model)
    lines = [*sentences(2, seed=5), ""]
    found = perplexity(bundle, lines, block=64)
    ids = [i for line in lines[:2] for i in (*bundle.tokenizers.source.encode(line), 0)]
    start = bundle.config.vocabulary.start
    with torch.no_grad():
        logits = bundle.model.decode(torch.tensor([[start, *ids[:-1]]]))[0]  # type: ignore[operator]
        nats = -logits.log_softmax(-1)[range(len(ids)), ids].sum()
    assert math.isclose(found.nats, float(nats), rel_tol=1e-5)
    assert (found.tokens, found.words) == (len(ids), 10)
    assert "perplexity per word" in found.text()
    cut = perplexity(bundle, lines, block=4)
    assert (cut.tokens, cut.context) == (len(ids), 2)
    with pytest.raises(DataError, match="no text"):
        perplexity(bundle, ["", " "])


# ---- hidden words ---------------------------------------------------------------------------------------


def test_words_are_hidden_whole() -> None:
    tokenizer = bpe()
    vocabulary = TokenizerPair(tokenizer, tokenizer, shared=True).vocabulary()
    ids = tokenizer.encode("unbelievable dog animals bee")
    groups = units(tokenizer, ids)
    assert [tokenizer.decode([ids[at] for at in group]) for group in groups] == [
        "unbelievable",
        "dog",
        "animals",
        "bee",
    ]
    hidden = kept = 0
    for seed in range(60):
        batch = masked_batch([ids], tokenizer, vocabulary, share=0.2, seed=seed)
        chosen = (batch.target_out_BT[0] >= 0).tolist()
        for group in groups:
            assert len({chosen[at] for at in group}) == 1
        assert chosen[-1] is False  # the end of the sentence is nobody's secret
        read = batch.source_BS[0].tolist()
        for at, is_chosen in enumerate(chosen[:-1]):
            if not is_chosen:
                assert read[at] == ids[at]
                continue
            assert batch.target_out_BT[0, at] == ids[at]
            hidden += read[at] == vocabulary.source_pad
            kept += read[at] == ids[at]
    assert hidden > 4 * kept > 0
    again = masked_batch([ids], tokenizer, vocabulary, share=0.2, seed=7)
    assert torch.equal(
        again.source_BS, masked_batch([ids], tokenizer, vocabulary, share=0.2, seed=7).source_BS
    )


def test_single_characters_are_hidden_where_there_are_no_pieces() -> None:
    tokenizer = train_tokenizer("characters", ["Nakamura"])
    assert len(units(tokenizer, tokenizer.encode("Nakamura"))) == 8


@pytest.mark.parametrize("kind", ["bpe", "characters", "symbols"])
def test_where_words_begin(kind: Any) -> None:
    text = "the old dog barks"
    tokenizer = train_tokenizer(kind, sentences(200), size=300)
    assert len(word_starts(tokenizer, tokenizer.encode(text))) == 4


def test_a_masked_language_model_learns(masked: Path) -> None:
    bundle = load_reader(masked)
    ids = bundle.tokenizers.source.encode("the old bee hums")
    ids[3] = bundle.model.hidden  # type: ignore[assignment]
    with torch.no_grad():
        logits = bundle.model.decode(torch.tensor([[*ids, 0]]), torch.tensor([5]))  # type: ignore[operator]
    assert bundle.tokenizers.source.decode([int(logits[0, 3].argmax())]) == "hums"
    [[best, second]] = Filler(bundle).fill("the old bee ___", n_best=2)
    assert best.name == "hums"
    assert best.probability > second.probability
    [[article], [animal]] = Filler(bundle).fill("___ old ___ hums", n_best=1)
    assert (article.name, animal.name) == ("the", "bee")


def test_blanks_that_can_not_be_filled(masked: Path, language_model: Path) -> None:
    filler = Filler(load_reader(masked))
    with pytest.raises(RequestError, match="there is no blank to fill: write ___ where"):
        filler.fill("the old bee hums")
    with pytest.raises(RequestError, match="n_best = 0 must be at least 1"):
        filler.fill("___", n_best=0)
    with pytest.raises(RequestError, match="tokens; this model reads"):
        filler.fill("the old ___ " * 400)
    with pytest.raises(RequestError, match="task = 'language_model' guesses no hidden words"):
        Filler(load_reader(language_model))


# ---- labels ---------------------------------------------------------------------------------------------


def test_a_classifier_learns_labels_with_spaces(tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", ["\t".join(pair) for pair in labelled(300)])
    result = run(tmp_path / "run", "classify", {"pairs": pairs}, train={"stop_on": "accuracy"})
    assert result.validation is not None
    assert result.validation.accuracy == 1.0
    labeller = Labeller.load(result.path)
    [[best, second]] = labeller.classify(["the old cow moos"], n_best=9)
    assert best.name == "Farm yard"
    assert best.probability + second.probability == pytest.approx(1.0)
    found = accuracy(labeller, [("the old cow moos", "Farm yard"), ("the red cat mews", "Farm yard")])
    assert (found.right, found.count) == (1, 2)
    with pytest.raises(RequestError, match="nothing to label"):
        labeller.classify([" "])
    with pytest.raises(RequestError, match="gives no labels to words"):
        labeller.tag(["a b"])


def test_a_tagger_fine_tunes_what_was_learnt_from_plain_text(tmp_path: Path, masked: Path) -> None:
    rows = [f"{text}\tDET ADJ NOUN VERB" for text in sentences(200)]
    pairs = write(tmp_path / "pairs.tsv", rows)
    result = run(tmp_path / "run", "tag", {"pairs": pairs}, train={"start_from": str(masked.parent)})
    assert result.validation is not None
    assert result.validation.accuracy == 1.0
    [words] = Labeller.load(result.path).tag(["the  big dog barks"])
    assert [(tagged.word, tagged.label.name) for tagged in words] == [
        ("the", "DET"),
        ("big", "ADJ"),
        ("dog", "NOUN"),
        ("barks", "VERB"),
    ]
    assert Labeller.load(result.path).tag([""]) == [[]]
    before, after = load_reader(masked).tokenizers.source, load_reader(result.path).tokenizers.source
    assert before.fingerprint() == after.fingerprint()


def test_fine_tuning_begins_with_the_weights_of_the_other_task(tmp_path: Path, masked: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", ["\t".join(pair) for pair in labelled(60)])
    still = {"start_from": str(masked.parent), "learning_rate": 1e-12}
    result = run(tmp_path / "run", "classify", {"pairs": pairs}, steps=1, train=still)
    before, after = weights_of(load_reader(masked).model), weights_of(load_reader(result.path).model)
    for name, weight in after.items():
        if name.startswith(("embedding.", "encoder.")):
            torch.testing.assert_close(weight, before[name])


def test_tags_must_match_words() -> None:
    tokenizer, tags = train_tokenizer("symbols", ["a b c"]), train_tokenizer("symbols", ["X Y"])
    vocabulary = TokenizerPair(tokenizer, tags, shared=False).vocabulary()
    batch = tagged_batch([(tokenizer.encode("a b"), tags.encode("X Y"))], tokenizer, vocabulary)
    assert batch.target_out_BT[0].tolist() == [*tags.encode("X Y"), NOTHING]
    with pytest.raises(DataError, match="1 tags for 2 words of 'a b'"):
        tagged_batch([(tokenizer.encode("a b"), tags.encode("X"))], tokenizer, vocabulary)


def test_images_are_lines_of_numbers(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = []
    for number in range(200):
        bright = number % 2
        pixels = [
            str(draw.randint(8, 16) if (place < 8) == bright else draw.randint(0, 7)) for place in range(16)
        ]
        rows.append(f"{' '.join(pixels)}\t{'above' if bright else 'below'}")
    pairs = write(tmp_path / "pairs.tsv", rows)
    result = run(tmp_path / "run", "image", {"pairs": pairs})
    assert result.validation is not None
    assert result.validation.accuracy == 1.0
    labeller = Labeller.load(result.path)
    assert labeller.classify([" ".join(["16"] * 8 + ["0"] * 8)])[0][0].name == "above"
    with pytest.raises(RequestError, match="15 pixels can't be cut"):
        labeller.classify([" ".join(["1"] * 15)])
    with pytest.raises(RequestError, match="'99' is no brightness"):
        labeller.classify([" ".join(["99"] * 16)])
    wrong = write(tmp_path / "wrong.tsv", ["a b c d\tx"] * 30)
    with pytest.raises(DataError, match="a line of numbers is an image"):
        run(tmp_path / "other", "image", {"pairs": wrong})


# ---- what is refused ------------------------------------------------------------------------------------


def test_bundles_of_other_tasks_are_refused_with_what_to_use(language_model: Path, numbers: Path) -> None:
    with pytest.raises(
        BundleError, match=r"continues texts; here a model is needed that translates.*generate"
    ):
        Bundle.load(language_model)
    with pytest.raises(
        BundleError, match=r"translates; here a model is needed that continues.*glass translate"
    ):
        load_reader(numbers, ("language_model",))


def test_settings_that_contradict_the_task(tmp_path: Path) -> None:
    text = {"text": write(tmp_path / "text.txt", sentences(20))}
    with pytest.raises(ConfigError, match="stop_on = 'bleu' is for translation"):
        run(tmp_path / "run", "language_model", text, train={"stop_on": "bleu"})
    with pytest.raises(ConfigError, match="needs labels"):
        run(tmp_path / "run", "translate", text, train={"stop_on": "accuracy"})
    with pytest.raises(ConfigError, match="holds no text pairs, which task = 'classify' needs"):
        run(tmp_path / "run", "classify", text)
    with pytest.raises(ConfigError, match=r"data.max_tokens = 99 is above model.max_length = 64"):
        run(tmp_path / "run", "language_model", text, data={"max_tokens": 99, "hold_out": 2})


def test_bundles_without_a_task_translate(numbers: Path) -> None:
    config = numbers / "config.toml"
    assert 'task = "translate"' in config.read_text(encoding="utf8")
    assert Bundle.load(numbers).config.task == "translate"
