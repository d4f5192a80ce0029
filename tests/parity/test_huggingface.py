"""Ours against Hugging Face's transformers, both ways, with every weight random and padding in the batch."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.bundle import Bundle, weights_of
from glassformer.engine import TorchEngine
from glassformer.formats import huggingface
from glassformer.formats.huggingface_reading import read_bundle
from glassformer.formats.proof import OurSide, padded
from glassformer.search.scoring import SearchOptions
from glassformer.text.lines import read_lines
from glassformer.text.mapped import MappedTokenizer
from tests.foreign import (
    AWKWARD,
    ENGLISH,
    GERMAN,
    joint_tokenizers,
    make_bundle,
    make_marian,
    separate_tokenizers,
    some_sources,
    trained_bundle,
)

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
transformers.utils.logging.disable_progress_bar()
LONGEST = 20

EXPORTS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "output tied": {"tied": "output"},
    "nothing tied": {"tied": "none"},
    "pre, output tied": {"norm": "pre", "tied": "output"},
    "pre, nothing tied": {"norm": "pre", "tied": "none"},
    "gelu": {"activation": "gelu", "encoder_layers": 1},
    "silu, no scaling": {"activation": "silu", "scale_embeddings": False},
    "no biases": {"attention_bias": False, "output_bias": False},
    "two vocabularies": {"tied": "output", "tokenizers": separate_tokenizers},
    "pre, two vocabularies": {"norm": "pre", "tied": "none", "tokenizers": separate_tokenizers},
}
IMPORTS: dict[str, dict[str, Any]] = {
    "as most are": {},
    "eos elsewhere": {"eos_first": False},
    "language codes": {"codes": True, "activation_function": "relu"},
    "nothing tied": {"tie_word_embeddings": False},
    "output tied": {"share_encoder_decoder_embeddings": False, "activation_function": "gelu"},
    "two vocabularies": {"separate": True},
    "two vocabularies, nothing tied": {"separate": True, "tie_word_embeddings": False},
    "shards": {"shard": "8KB", "scale_embedding": False},
}


def exported(path: Path, tokenizers: Any = joint_tokenizers, **model: Any) -> Bundle:
    bundle = make_bundle(tokenizers(), **model)
    proof = huggingface.export_bundle(bundle, path)
    assert proof.holds
    assert (proof.agree, proof.sentences) == (12, 12)
    return bundle


@pytest.fixture(scope="module", params=EXPORTS)
def export(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Path]:
    path = tmp_path_factory.mktemp("export") / "hf"
    return exported(path, **EXPORTS[request.param]), path


@pytest.fixture(scope="module", params=IMPORTS)
def marian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    path = tmp_path_factory.mktemp("import") / "hf"
    return make_marian(path, **IMPORTS[request.param]), path


def in_double(bundle: Bundle) -> Bundle:
    return replace(bundle, model=copy.deepcopy(bundle.model).double())


def their_logits(model: Any, sources: list[list[int]], targets: list[list[int]], eos: int) -> Tensor:
    rows = [[*source, eos] for source in sources]
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        return model(
            input_ids=padded(rows, 0),  # whatever stands behind the end, the mask says it is nothing
            attention_mask=padded([[1] * len(row) for row in rows], 0),
            decoder_input_ids=padded([[start, *target] for target in targets], model.config.pad_token_id),
        ).logits


def generated(model: Any, sources: list[list[int]], eos: int, **options: Any) -> list[list[int]]:
    rows = [[*source, eos] for source in sources]
    found = model.generate(
        padded(rows, 0), attention_mask=padded([[1] * len(row) for row in rows], 0), **options
    )
    return [row[: row.index(eos)] if eos in row else row for row in found[:, 1:].tolist()]


def compare_logits(bundle: Bundle, model: Any) -> float:
    vocabulary = bundle.config.vocabulary
    sources = some_sources(vocabulary.source_size)
    targets = some_sources(vocabulary.target_size, seed=9)[::-1]
    theirs = their_logits(model, sources, targets, vocabulary.eos)
    ours = OurSide(bundle).logits(sources, targets)
    apart = [(a - b[: len(a)]).abs() for a, b in zip(ours, theirs, strict=True)]
    for one in apart:
        one[:, vocabulary.target_pad] = 0.0
    return max(one.max().item() for one in apart)


def compare_search(bundle: Bundle, model: Any, beams: int, **options: Any) -> tuple[int, int]:
    """Translations that are the same, and those that end before the maximum."""
    vocabulary = bundle.config.vocabulary
    sources = some_sources(vocabulary.source_size, count=36)
    search = SearchOptions(beams=beams)
    found = TorchEngine(bundle.model).translate_ids(sources, search, max_lengths=[LONGEST] * len(sources))
    more = {"early_stopping": True, "length_penalty": 1.0} if beams > 1 else {"length_penalty": None}
    theirs = generated(
        model, sources, vocabulary.eos, num_beams=beams, max_length=LONGEST + 1, **more, **options
    )
    ours = [one[0].tokens for one in found]
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    return same, sum(one[0].finished for one in found)


def test_an_export_computes_the_same_numbers(export: tuple[Bundle, Path]) -> None:
    bundle, path = export
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    assert compare_logits(bundle, model) < 1e-4
    assert compare_search(bundle, model, beams=1)[0] == 36
    same, finished = compare_search(bundle, model, beams=4)
    assert same == 36
    # Some end by themselves, or the test says little.
    assert finished > 5 or not bundle.config.model.output_bias
    assert compare_logits(in_double(bundle), model.double()) < 1e-8


def test_there_and_back_not_a_bit_changes(export: tuple[Bundle, Path], tmp_path: Path) -> None:
    bundle, path = export
    saved = tmp_path / "saved by them"
    transformers.AutoModelForSeq2SeqLM.from_pretrained(path).save_pretrained(saved)
    transformers.AutoTokenizer.from_pretrained(path).save_pretrained(saved)
    back = read_bundle(saved)
    back.save(tmp_path / "back")
    before, after = weights_of(bundle.model), weights_of(Bundle.load(tmp_path / "back").model)
    assert list(before) == list(after)
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert back.config == bundle.config
    assert back.tokenizers.fingerprint() == bundle.tokenizers.fingerprint()


@pytest.mark.parametrize("tokenizers", [joint_tokenizers, separate_tokenizers])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_export_reads_text_as_we_do(tokenizers: Any, norm: str, tmp_path: Path) -> None:
    bundle = exported(tmp_path / "hf", tokenizers, norm=norm, tied="output")
    plain = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    plain.save_pretrained(tmp_path / "again")
    (tmp_path / "again" / "config.json").write_bytes((tmp_path / "hf" / "config.json").read_bytes())
    for tokenizer in (plain, transformers.AutoTokenizer.from_pretrained(tmp_path / "again")):
        assert type(tokenizer).__name__ == "MarianTokenizer"
        for text in AWKWARD + ENGLISH[:20] + GERMAN[:20]:
            ids = bundle.tokenizers.source.encode(text)
            assert tokenizer(text)["input_ids"] == [*ids, 0], text
            ids = bundle.tokenizers.target.encode(text)
            assert tokenizer(text_target=text)["input_ids"] == [*ids, 0], text
            assert tokenizer.decode([*ids, 0], skip_special_tokens=True) == _shown(bundle, ids), text


def _shown(bundle: Bundle, ids: list[int]) -> str:
    """Their decoding drops unknown pieces and outer spaces."""
    return bundle.tokenizers.target.decode([i for i in ids if i != 1]).strip()


def test_generate_needs_no_options(tmp_path: Path) -> None:
    """What an export says about generation is the bundle's own search."""
    bundle = exported(tmp_path / "hf", max_length=40)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    sources = some_sources(bundle.config.vocabulary.source_size, count=8)
    search = SearchOptions(beams=3, length_penalty=0.8)
    ours = TorchEngine(bundle.model).translate_ids(sources, search, max_lengths=[39] * 8)
    assert generated(model, sources, 0) == [one[0].tokens for one in ours]


def test_the_padding_is_never_generated(tmp_path: Path) -> None:
    bundle = make_bundle(output_bias=False, tied="none")
    pad = bundle.config.vocabulary.target_pad
    with torch.no_grad():
        bundle.model.output.weight_VD[pad] = 9.0
        bundle.model.decoder.layers[-1].feed_forward_residual.norm.bias.fill_(1.0)
    huggingface.export_bundle(bundle, tmp_path / "hf")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    sources = some_sources(pad + 1, count=8)
    assert all(pad not in row for row in generated(model, sources, 0, max_length=10, num_beams=1))


def test_an_import_computes_the_same_numbers(marian: tuple[Any, Path], tmp_path: Path) -> None:
    model, path = marian
    imported, proof = huggingface.import_bundle(path, tmp_path / "bundle")
    assert proof.holds
    assert proof.sentences == 12
    bundle = Bundle.load(tmp_path / "bundle")
    assert bundle.config == imported.config
    assert (bundle.config.source_language, bundle.config.target_language) == ("en", "de")
    assert bundle.config.search.beams == 2
    assert compare_logits(bundle, model) < 1e-4
    # The padding has a share in their probabilities unless they are told; search would rank by it.
    pad = {"bad_words_ids": [[bundle.config.vocabulary.target_pad]], "renormalize_logits": True}
    assert compare_search(bundle, model, beams=1, **pad)[0] == 36
    same, finished = compare_search(bundle, model, beams=4, **pad)
    assert same == 36
    assert finished > 5
    assert compare_logits(in_double(bundle), copy.deepcopy(model).double()) < 1e-8


def test_an_import_reads_text_as_they_do(marian: tuple[Any, Path], tmp_path: Path) -> None:
    _, path = marian
    read_bundle(path).save(tmp_path / "bundle")
    tokenizers = Bundle.load(tmp_path / "bundle").tokenizers
    assert isinstance(tokenizers.source, MappedTokenizer)
    theirs = transformers.MarianTokenizer.from_pretrained(path, split_special_tokens=True)
    eos = tokenizers.target.eos
    codes = [">>deu<< He sees", ">>deu<<", ">>xyz<< He", ">> He <<"]
    for text in AWKWARD + codes + ENGLISH[:20] + GERMAN[:20]:
        assert theirs(text)["input_ids"] == [*tokenizers.source.encode(text), eos], text
        ids = tokenizers.target.encode(text)
        assert theirs(text_target=text)["input_ids"] == [*ids, eos], text
        known = [i for i in ids if i != tokenizers.target.unk]
        assert theirs.decode(known, skip_special_tokens=True) == tokenizers.target.decode(known), text


def test_a_literal_end_of_sentence_is_text_to_us_and_not_to_them(tmp_path: Path) -> None:
    """The one deliberate difference: plain MarianTokenizer lets a text end its own sentence."""
    make_marian(tmp_path / "hf")
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "hf")
    source = read_bundle(tmp_path / "hf").tokenizers.source
    assert source.eos in theirs("He </s> sees")["input_ids"][:-1]
    assert source.eos not in source.encode("He </s> sees")


def test_an_import_goes_out_again(tmp_path: Path) -> None:
    """Hugging Face → ours → Hugging Face: the same model, and their tokenizer's own files."""
    make_marian(tmp_path / "hf", eos_first=False)
    bundle, _ = huggingface.import_bundle(tmp_path / "hf")
    assert huggingface.export_bundle(bundle, tmp_path / "again").holds
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "hf" / name).read_bytes()
    tables = [json.loads((tmp_path / place / "vocab.json").read_text("utf-8")) for place in ("hf", "again")]
    assert tables[0] == tables[1]


def test_a_row_of_padding_that_training_moved_stays_as_it_is(tmp_path: Path) -> None:
    """Their training moves the tied row that the decoder starts from; ours keeps it at zero."""
    model = make_marian(tmp_path / "hf")
    pad = model.config.pad_token_id
    assert model.model.shared.weight[pad].abs().sum() > 1
    bundle, proof = huggingface.import_bundle(tmp_path / "hf")
    assert proof.holds
    assert bundle.model.source_embedding.weight_VD[pad].abs().sum() > 1


@pytest.mark.full
def test_a_trained_model_on_real_sentences(shared_data: Path, tmp_path: Path) -> None:
    bundle = trained_bundle(shared_data / "multi30k", updates=200)
    lines = list(read_lines(shared_data / "multi30k" / "test_2016_flickr.en"))[:200]
    proof = huggingface.export_bundle(bundle, tmp_path / "hf", texts=lines)
    assert (proof.agree, proof.sentences) == (200, 200)
    assert proof.difference < 1e-4
