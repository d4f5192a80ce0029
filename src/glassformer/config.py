"""What a model is: frozen dataclasses, every setting documented where it is declared. No torch here.

A `BundleConfig` is what a finished model carries with it, a TOML file read and written by
`glassformer.settings`; what a person writes to train one is a `Recipe` (`recipe.py`). Modules never see these
classes: only builders do, and they hand on plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

TokenizerKind = Literal["bpe", "unigram", "characters", "symbols", "labels"]
Task = Literal["translate", "language_model", "masked_language_model", "classify", "tag", "image"]
ONE_SIDED = ("language_model", "masked_language_model")
"""tasks that read plain text; of text pairs they read the source"""
LABELLED = ("classify", "tag", "image")
"""tasks whose targets are labels"""
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "neighbour_dropout")
"""settings of a model that may change after its birth: its weights fit any of them"""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of the network. The defaults are the paper's base model."""

    encoder_layers: int = 6
    """layers in the encoder"""
    decoder_layers: int = 6
    """layers in the decoder"""
    width: int = 512
    """d_model: numbers that stand for one token"""
    feed_forward: int = 2048
    """d_ff: inner width of the feed-forward layers (Eq. 2)"""
    heads: int = 8
    """attention heads in every layer"""
    key_value_heads: int = 0
    """heads that share keys and values (grouped-query attention); 0 means one for each head"""
    head_width: int = 0
    """d_k: width of a head's queries and keys; 0 means width / heads"""
    value_width: int = 0
    """d_v: width of a head's values; 0 means the same as head_width"""
    norm: Literal["post", "pre"] = "post"
    """where the normalisation stands: after the residual sum as in the paper, or before each sub-layer"""
    norm_kind: Literal["layer", "rms"] = "layer"
    """LayerNorm, or RMSNorm (no mean, no bias)"""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """the non-linearity inside the feed-forward layers"""
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal"
    """how the model knows the order of the tokens"""
    score: Literal["scaled_dot", "additive", "bilinear", "projected"] = "scaled_dot"
    """how attention measures how alike a query and a key are"""
    scale: Literal["sqrt", "init"] = "sqrt"
    """divide scores by √d_k, or leave them and make the initial queries √d_k times smaller (T5's way)"""
    query_key_norm: bool = False
    """normalise queries and keys of each head before they meet"""
    tied: Literal["all", "output", "none"] = "all"
    """which embeddings are one matrix: source, target and output; target and output; or none"""
    attention_bias: bool = True
    """biases in the four projections of attention"""
    output_bias: bool = False
    """a bias on the final logits"""
    scale_embeddings: bool = True
    """multiply embeddings by √width (section 3.4 of the paper)"""
    dropout: float = 0.1
    """on the output of every sub-layer and on the sum of embeddings and positions"""
    attention_dropout: float = 0.1
    """on the attention weights"""
    activation_dropout: float = 0.0
    """inside the feed-forward layers (the paper has none)"""
    neighbours: int = 0
    """the longest n-gram of source tokens that has a vector of its own, from 2 up; 0 means none"""
    neighbour_rows: int = 65536
    """vectors that all n-grams share, by hash"""
    neighbour_dropout: float = 0.25
    """share of the n-grams that are left out in training"""
    max_length: int = 1024
    """the longest sentence the model is asked to take, in tokens; learned positions end there"""
    patch: int = 2
    """side of the squares, in pixels, that an image is cut into (task image)"""
    architecture: Literal["transformer", "recurrent"] = "transformer"
    """recurrent: LSTMs, as before 2017; heads, feed-forward, norms and positions mean nothing to them"""
    recurrent_attention: Literal["none", "dot", "additive", "bilinear"] = "dot"
    """how a recurrent decoder looks at the source; none: one vector for the whole sentence is all it gets"""

    def problems(self) -> list[str]:
        found = []
        for key in (
            "encoder_layers",
            "decoder_layers",
            "width",
            "feed_forward",
            "heads",
            "max_length",
            "patch",
            "neighbour_rows",
        ):
            if getattr(self, key) < 1:
                found.append(f"{key} = {getattr(self, key)} must be at least 1")
        for key in ("key_value_heads", "head_width", "value_width"):
            if getattr(self, key) < 0:
                found.append(f"{key} = {getattr(self, key)} must not be negative; 0 takes the default")
        if self.neighbours < 0 or self.neighbours == 1:
            found.append(f"neighbours = {self.neighbours} must be 0, for none, or at least 2")
        for key in DROPOUTS:
            if not 0 <= getattr(self, key) < 1:
                found.append(f"{key} = {getattr(self, key)} must be from 0 up to, not including, 1")
        return found or self._senseless()

    def _senseless(self) -> list[str]:
        """Combinations whose parts contradict each other; every single value is fine by itself."""
        found: list[str] = []
        if self.architecture == "recurrent":
            if self.width % 2:
                found.append(f"width ({self.width}) must be even: half of it reads forwards, half backwards")
            return found
        if not self.head_width and self.width % self.heads:
            divisors = [h for h in range(1, self.width + 1) if self.width % h == 0]
            nearest = min(divisors, key=lambda h: abs(h - self.heads))
            found.append(
                f"width ({self.width}) must be divisible by heads ({self.heads}); "
                f"try heads = {nearest}, or set head_width"
            )
        if self.key_value_heads and self.heads % self.key_value_heads:
            found.append(
                f"heads ({self.heads}) must be a multiple of key_value_heads ({self.key_value_heads})"
            )
        if self.positions == "sinusoidal" and self.width % 2:
            found.append(
                f"width ({self.width}) must be even for sinusoidal positions: sines and cosines pair up"
            )
        if self.positions == "rotary":
            if self.score != "scaled_dot":
                found.append(
                    f"positions = 'rotary' needs score = 'scaled_dot', not '{self.score}': "
                    "turning queries and keys encodes distance only in their dot product"
                )
            head_width = self.head_width or self.width // self.heads
            if head_width % 2:
                found.append(
                    f"positions = 'rotary' turns pairs of numbers: head_width ({head_width}) must be even"
                )
        if self.scale == "init" and self.score == "additive":
            found.append(
                "scale = 'init' has no meaning for score = 'additive': its tanh bounds the scores already"
            )
        if self.scale == "init" and self.query_key_norm:
            found.append("scale = 'init' is undone by query_key_norm = true: use scale = 'sqrt'")
        return found


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"encoder_layers": 4, "decoder_layers": 4, "width": 128, "feed_forward": 256, "heads": 4},
    "small": {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "feed_forward": 1024, "heads": 4},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "width": 512, "feed_forward": 2048, "heads": 8},
    "big": {"encoder_layers": 6, "decoder_layers": 6, "width": 1024, "feed_forward": 4096, "heads": 16},
}
"""`model.preset = "tiny"` in a recipe stands for these keys; keys written beside it win."""


@dataclass(frozen=True)
class VocabularyConfig:
    """The token ids that mean something. They are data: other programs' models bring their own."""

    source_size: int = 0
    """entries of the source vocabulary, the padding included"""
    target_size: int = 0
    """entries of the target vocabulary, the padding included"""
    shared: bool = True
    """source and target are one vocabulary"""
    eos: int = 0
    """end of sentence, in both vocabularies"""
    unk: int = 1
    """a piece that is not in the vocabulary"""
    source_pad: int = 0
    """fills up short sources; the last entry of the vocabulary"""
    target_pad: int = 0
    """fills up short targets; the last entry of the vocabulary; never predicted"""
    start: int = 0
    """what is read first: the padding, whose embedding is zero, by decoders; eos by language models"""

    def problems(self) -> list[str]:
        found = []
        for key in ("source_size", "target_size"):
            if getattr(self, key) < 3:
                found.append(
                    f"{key} = {getattr(self, key)} is too small: end, unknown and padding take three"
                )
        if self.shared and self.source_size != self.target_size:
            found.append(
                f"shared = true, but source_size {self.source_size} ≠ target_size {self.target_size}"
            )
        for key, size in (
            ("eos", min(self.source_size, self.target_size)),
            ("unk", min(self.source_size, self.target_size)),
            ("source_pad", self.source_size),
            ("target_pad", self.target_size),
            ("start", self.target_size),
        ):
            if not 0 <= getattr(self, key) < size:
                found.append(f"{key} = {getattr(self, key)} is outside the vocabulary of {size}")
        return found


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes tokens."""

    kind: TokenizerKind = "bpe"
    """SentencePiece bpe or unigram; characters; symbols, which white space separates; labels, whole lines"""
    source_kind: Literal["same", "bpe", "unigram", "characters", "symbols", "labels"] = "same"
    """another kind for the source side"""
    target_kind: Literal["same", "bpe", "unigram", "characters", "symbols", "labels"] = "same"
    """another kind for the target side"""
    joint: bool = True
    """one vocabulary for both sides"""
    size: int = 8000
    """pieces to learn, at most (bpe and unigram)"""
    character_coverage: float = 1.0
    """share of characters that get a piece of their own; the rest is spelled in bytes"""
    normalisation: Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"] = "identity"
    """what SentencePiece does to text first; identity keeps full-width punctuation apart"""

    def problems(self) -> list[str]:
        found = []
        if self.size < 274 and {"bpe", "unigram"} & {self.kind_of("source"), self.kind_of("target")}:
            found.append(f"size = {self.size} must be at least 274: 256 spell rare characters in bytes")
        if not 0.9 <= self.character_coverage <= 1:
            found.append(f"character_coverage = {self.character_coverage} must be from 0.9 to 1")
        if self.joint and self.kind_of("source") != self.kind_of("target"):
            found.append(
                f"joint = true, but the source is {self.kind_of('source')} and the target is "
                f"{self.kind_of('target')}; set joint = false"
            )
        return found

    def kind_of(self, side: Literal["source", "target"]) -> TokenizerKind:
        own = self.source_kind if side == "source" else self.target_kind
        return self.kind if own == "same" else own


@dataclass(frozen=True)
class SearchConfig:
    """How a translation is looked for; the defaults that a bundle carries."""

    beams: int = 4
    """hypotheses kept at each step; 1 is greedy search"""
    penalty: Literal["length", "wu"] = "length"
    """score = log p / length^α, or log p / ((5 + length) / 6)^α (Wu et al. 2016)"""
    length_penalty: float = 1.0
    """α of the penalty; 0 compares plain log-probabilities"""
    stop: Literal["beam_finished", "exact"] = "beam_finished"
    """stop when a beam's worth of hypotheses has ended, or only when no better one can come"""
    min_length: int = 0
    """fewest tokens of an output"""
    max_length: int = 0
    """most tokens of an output; 0 means 2 × source + 32"""
    no_repeat_ngram: int = 0
    """never say the same n tokens twice; 0 allows it"""

    def problems(self) -> list[str]:
        found = []
        if self.beams < 1:
            found.append(f"beams = {self.beams} must be at least 1")
        for key in ("length_penalty", "min_length", "max_length", "no_repeat_ngram"):
            if getattr(self, key) < 0:
                found.append(f"{key} = {getattr(self, key)} must not be negative")
        if self.max_length and self.min_length > self.max_length:
            found.append(f"min_length = {self.min_length} is above max_length = {self.max_length}")
        return found


@dataclass(frozen=True)
class BundleConfig:
    """What a finished model says about itself: `config.toml` in its directory."""

    format: int = 1
    """version of the bundle's layout"""
    task: Task = "translate"
    """what the model does"""
    source_language: str = ""
    """language code of what goes in"""
    target_language: str = ""
    """language code of what comes out"""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def problems(self) -> list[str]:
        if self.format != 1:
            return [
                f"format = {self.format}, but this version of glassformer reads format 1: upgrade glassformer"
            ]
        return []
