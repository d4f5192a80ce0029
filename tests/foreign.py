"""Small models for the tests of formats: ours, and Marian models of Hugging Face laid out as OPUS-MT's are.

Every weight, every bias and every norm is random: fresh weights hide what a conversion loses.
"""

from __future__ import annotations

import io
import itertools
import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from glassformer.bundle import Bundle
from glassformer.config import BundleConfig, ModelConfig, SearchConfig
from glassformer.formats.proof import OurSide
from glassformer.model.build import build_model
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer

_WHO = {"The old man": "Der alte Mann", "A girl": "Ein Mädchen", "My cat": "Meine Katze", "He": "Er"}
_DOES = {"sees": "sieht", "buys": "kauft", "is looking for": "sucht", "loves": "liebt"}
_WHAT = {
    "a house": "ein Haus",
    "the sea": "das Meer",
    "much bread": "viel Brot",
    "her bicycle": "ihr Fahrrad",
}
_END = {".": ".", " today!": " heute!", ", you know?": ", weißt du?"}
PAIRS = [
    (f"{who} {does} {what}{end}", f"{_WHO[who]} {_DOES[does]} {_WHAT[what]}{_END[end]}")
    for who, does, what, end in itertools.product(_WHO, _DOES, _WHAT, _END)
]
ENGLISH, GERMAN = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]

AWKWARD = [
    "",
    " ",
    "The old man 😀 👩‍👩‍👧 sees",
    "他买面包，今天！",
    "Cafe\u0301 Stra\u00dfe ﬁne",
    "a </s> b",
    "</s>",
    "<pad><unk> x",
    "  two  spaces ",
    "a\tb\u00a0c\u200bd",
    "▁mark",
    "<0xE4>",
    "x" * 300,
]


@cache
def joint_tokenizers() -> TokenizerPair:
    both = train_tokenizer("bpe", ENGLISH + GERMAN, size=400)
    return TokenizerPair(both, both, shared=True)


@cache
def separate_tokenizers() -> TokenizerPair:
    """Two vocabularies of the same size, of two kinds."""
    source = train_tokenizer("bpe", ENGLISH, size=300)
    target = train_tokenizer("unigram", GERMAN, size=300)
    assert source.size == target.size
    return TokenizerPair(source, target, shared=False)


def make_bundle(tokenizers: TokenizerPair | None = None, *, seed: int = 1, **model: Any) -> Bundle:
    """A bundle whose translations have all lengths."""
    tokenizers = tokenizers or joint_tokenizers()
    small = {"encoder_layers": 2, "decoder_layers": 2, "width": 32, "feed_forward": 48, "heads": 4}
    config = BundleConfig(
        source_language="en",
        target_language="de",
        vocabulary=tokenizers.vocabulary(),
        model=ModelConfig(**{**small, "output_bias": True, "max_length": 400, **model}),
        search=SearchConfig(beams=3, length_penalty=0.8),
    )
    torch.manual_seed(seed)
    network = build_model(config.model, config.vocabulary).eval()
    pad = config.vocabulary.target_pad
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
        network.output.weight_VD.mul_(2.0)
        if network.output.bias_V is not None:
            network.output.bias_V[pad] = 0.0  # it has no meaning, and no gradient ever moves it
    bundle = Bundle(config, tokenizers, network, "# A model for tests\n")
    let_some_end(bundle)
    return bundle


def let_some_end(bundle: Bundle, share: float = 0.3) -> None:
    """Raise the end of sentence until it is the likeliest token in this share of all places."""
    bias_V, eos = bundle.model.output.bias_V, bundle.config.vocabulary.eos
    if bias_V is None:
        return
    size = bundle.config.vocabulary.target_size
    sources, targets = some_sources(bundle.config.vocabulary.source_size), some_sources(size, seed=7)
    logits_XV = torch.cat(OurSide(bundle).logits(sources, targets))
    lacking_X = logits_XV.amax(-1) - logits_XV[:, eos]
    with torch.no_grad():
        bias_V[eos] += lacking_X.quantile(share)


def some_sources(size: int, count: int = 24, seed: int = 2) -> list[list[int]]:
    """Random ids of all lengths from 0 to 11, special ones excluded."""
    generator = random.Random(seed)
    return [[generator.randrange(2, size - 1) for _ in range(n % 12)] for n in range(count)]


# --- as OPUS-MT's ---


@cache
def opus_pieces() -> tuple[bytes, bytes]:
    """Two SentencePiece models with that project's settings: unigram, normalised, no bytes, `<unk>` first."""
    found = []
    for lines in (ENGLISH, GERMAN):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=90,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
        )
        found.append(model.getvalue())
    return found[0], found[1]


def opus_ids(models: list[bytes], *, eos_first: bool = True, codes: bool = False) -> dict[str, int]:
    """A table of ids in an order of its own, as vocab.json has it."""
    pieces: dict[str, None] = {}
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= dict.fromkeys(processor.id_to_piece(i) for i in range(3, processor.get_piece_size()))
    names = list(pieces) + ([">>deu<<", ">>fra<<"] if codes else [])
    random.Random(5).shuffle(names)
    names = ["</s>", "<unk>", *names] if eos_first else [*names[:7], "<unk>", "</s>", *names[7:]]
    return {name: i for i, name in enumerate([*names, "<pad>"])}


def make_marian(
    directory: Path,
    *,
    separate: bool = False,
    eos_first: bool = True,
    codes: bool = False,
    shard: str = "5GB",
    seed: int = 3,
    **config: Any,
) -> Any:
    """A Marian model with random everything, saved as transformers saves it; its `final_logits_bias`, too."""
    import transformers

    source, target = opus_pieces()
    if separate:  # their one padding must lie in both vocabularies: the larger one is the source's
        source, target = target, source
    directory.mkdir(parents=True, exist_ok=True)
    if separate:
        tables = {
            "vocab.json": opus_ids([source], eos_first=eos_first),
            "target_vocab.json": opus_ids([target], eos_first=eos_first),
        }
    else:
        tables = {"vocab.json": opus_ids([source, target], eos_first=eos_first, codes=codes)}
    for name, table in tables.items():
        (directory / name).write_text(json.dumps(table), "utf-8")
    (directory / "source.spm").write_bytes(source)
    (directory / "target.spm").write_bytes(target)
    settings = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    last = list(tables.values())[-1]
    shape = {
        "vocab_size": len(tables["vocab.json"]),
        "decoder_vocab_size": len(last),
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 350,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": last["<pad>"],
        "decoder_start_token_id": last["<pad>"],
        "eos_token_id": last["</s>"],
        "forced_eos_token_id": None,
        "share_encoder_decoder_embeddings": not separate,
    }
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**shape, **config})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.15))
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, last["</s>"]] += 6.0
    model.generation_config.num_beams = 2
    model.save_pretrained(directory, max_shard_size=shard)
    return model


def with_config(bundle: Bundle, **changes: Any) -> Bundle:
    return replace(bundle, config=replace(bundle.config, **changes))


def trained_bundle(folder: Path, updates: int = 500) -> Bundle:
    """English to German learnt from real sentences: some minutes, and far from good."""
    from glassformer.data.batch import collate
    from glassformer.text.lines import read_lines
    from glassformer.train.objective import TranslationObjective

    pairs = list(zip(read_lines(folder / "train.en"), read_lines(folder / "train.de"), strict=True))
    both = train_tokenizer("bpe", [text for pair in pairs[:10_000] for text in pair], size=2000)
    tokenizers = TokenizerPair(both, both, shared=True)
    network = ModelConfig(encoder_layers=2, decoder_layers=2, width=128, feed_forward=256, heads=4)
    config = BundleConfig(
        source_language="en", target_language="de", vocabulary=tokenizers.vocabulary(), model=network
    )
    torch.manual_seed(0)
    model = build_model(config.model, config.vocabulary)
    objective = TranslationObjective(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    order = random.Random(0)
    for _ in range(updates):
        texts = sorted(order.sample(pairs, 96), key=lambda pair: len(pair[0]))[24:72]
        encoded = [(both.encode(source), both.encode(target)) for source, target in texts]
        loss, count = objective(collate(encoded, config.vocabulary))[:2]
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return Bundle(config, tokenizers, model.eval(), "# Trained for a test\n")
