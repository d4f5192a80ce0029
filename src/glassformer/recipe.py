"""What a run is told: the text, how to train on it, and the model that is to come out. No torch here.

A `Recipe` is the TOML file of `glass train recipe.toml`; every setting is documented where it is declared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from glassformer.config import LABELLED, ModelConfig, SearchConfig, Task, TokenizerConfig


@dataclass(frozen=True)
class CorpusConfig:
    """Where text comes from: two plain files, one file of pairs, one of plain text, or a named corpus."""

    source: str = ""
    """file of source lines (plain, or .gz)"""
    target: str = ""
    """file of target lines, as many"""
    pairs: str = ""
    """one .tsv or .jsonl file (or .gz of it) that holds both sides"""
    text: str = ""
    """one file of plain text, for language models"""
    name: str = ""
    """a named corpus instead of files: see `glass data list`"""
    source_field: str = "0"
    """column number (.tsv, from 0) or key (.jsonl) of the source"""
    target_field: str = "1"
    """column number or key of the target"""
    weight: float = 1.0
    """how often an epoch goes through this corpus: 2 means twice, 0.5 means half of it"""

    def problems(self) -> list[str]:
        found = []
        given = [key for key in ("source", "pairs", "text", "name") if getattr(self, key)]
        if len(given) > 1:
            found.append(
                f"{' and '.join(given)} exclude each other: two files, or one of pairs or text, or a name"
            )
        if bool(self.source) != bool(self.target):
            found.append("source and target belong together: one of the two files is missing")
        if self.weight <= 0:
            found.append(f"weight = {self.weight} must be above 0")
        return found

    @property
    def given(self) -> bool:
        return bool(self.source or self.pairs or self.text or self.name)


@dataclass(frozen=True)
class DataConfig:
    """Which text, in which languages, and what is cleaned away."""

    source_language: str = ""
    """language code of the source (en, zh, …); says how to split and to score text"""
    target_language: str = ""
    """language code of the target"""
    corpora: tuple[CorpusConfig, ...] = ()
    """what to train on"""
    valid: CorpusConfig = field(default_factory=CorpusConfig)
    """what to validate on; left out, a part of the training text is held out"""
    hold_out: int = 1000
    """pairs held out for validation when none are given (at most a tenth of the corpus)"""
    errors: Literal["strict", "replace"] = "strict"
    """bytes that are not UTF-8: stop and say where, or put U+FFFD in their place"""
    drop_empty: bool = True
    """leave out pairs with an empty side"""
    drop_identical: bool = False
    """leave out pairs whose sides are the same"""
    drop_duplicates: bool = True
    """leave out pairs seen before"""
    max_characters: int = 4000
    """leave out pairs with a longer side; 0 keeps all"""
    max_ratio: float = 9.0
    """leave out pairs with one side this many times longer, in characters (short ones not); 0 keeps all"""
    max_tokens: int = 256
    """leave out pairs with more tokens on a side; 0 keeps all. A language model reads blocks of so many"""
    truncate: bool = False
    """cut long sides at max_tokens instead of leaving the pair out"""

    def problems(self) -> list[str]:
        found = []
        for key in ("hold_out", "max_characters", "max_ratio", "max_tokens"):
            if getattr(self, key) < 0:
                found.append(f"{key} = {getattr(self, key)} must not be negative")
        if self.truncate and not self.max_tokens:
            found.append("truncate = true needs max_tokens above 0")
        return found


@dataclass(frozen=True)
class TrainConfig:
    """The loop: how long, how fast, how careful."""

    seed: int = 1
    """decides initial weights, order of the data, dropout: the same seed gives the same run"""
    batch_tokens: int = 2048
    """target tokens in one batch, padding included"""
    accumulate: int = 1
    """batches whose gradients add up to one update"""
    max_steps: int = 0
    """updates; 0 leaves it to the other limits"""
    max_epochs: int = 0
    """passes over the data; 0 leaves it to the other limits"""
    max_minutes: float = 0.0
    """minutes of training, over all resumptions; 0 leaves it to the other limits"""
    learning_rate: float = 0.002
    """the peak of the schedule (for noam: a factor on Eq. 3)"""
    schedule: Literal["noam", "inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    """how the rate falls after the warm-up"""
    warmup: int = 400
    """updates until the rate is at its peak"""
    final_rate: float = 0.0
    """share of the peak that cosine and linear end at"""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """muon: orthogonal updates for the layers' matrices, AdamW for the rest; good for small batches"""
    momentum: float = 0.95
    """Muon's memory of the gradient"""
    matrix_rate: float = 1.0
    """what Muon multiplies the learning rate by; 1 moves matrices about as far as AdamW would"""
    beta1: float = 0.9
    """Adam's memory of the gradient"""
    beta2: float = 0.98
    """Adam's memory of its square"""
    epsilon: float = 1e-9
    """Adam's guard against division by zero"""
    weight_decay: float = 0.0
    """decoupled decay (AdamW), on matrices only"""
    clip: float = 1.0
    """longest gradient allowed; 0 lets all through"""
    label_smoothing: float = 0.1
    """share of the target spread over the vocabulary (section 5.4 of the paper)"""
    masked: float = 0.15
    """share of the tokens that a masked language model has to guess"""
    bpe_dropout: float = 0.0
    """chance that a merge is skipped when training text is tokenised"""
    r_drop: float = 0.0
    """weight of the divergence between two dropout passes of the same batch; 0 means one pass"""
    ema: int = 0
    """updates over which an exponential mean of the weights reaches back; 0 means none"""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 products where faster (CUDA; wide models on processors that have them), else float32"""
    log_every: int = 10
    """updates that share one line of metrics.jsonl"""
    validate_every: int = 500
    """updates between two validations and checkpoints"""
    validate_minutes: float = 0.0
    """minutes between two validations instead"""
    validate_bleu: int = 200
    """sentences translated for BLEU at a validation; 0 for none"""
    samples: int = 3
    """translations shown at a validation"""
    keep_last: int = 2
    """checkpoints kept, the newest ones"""
    average: int = 1
    """checkpoints averaged into the finished model: the best ones, or the last ones with average_last"""
    average_last: bool = False
    """average the last checkpoints, not the best ones"""
    patience: int = 0
    """validations without improvement before training stops; 0 never stops"""
    stop_on: Literal["loss", "bleu", "accuracy"] = "loss"
    """what counts as improvement, and as best"""
    start_from: str = ""
    """a bundle to fine-tune"""
    max_bad_steps: int = 20
    """updates in a row with a loss that is not a number before training gives up"""
    threads: int = 0
    """processor threads; 0 means one for each core"""

    def problems(self) -> list[str]:
        found = []
        for key in (
            "batch_tokens",
            "accumulate",
            "warmup",
            "log_every",
            "validate_every",
            "keep_last",
            "average",
            "max_bad_steps",
        ):
            if getattr(self, key) < 1:
                found.append(f"{key} = {getattr(self, key)} must be at least 1")
        for key in (
            "max_steps",
            "max_epochs",
            "max_minutes",
            "clip",
            "weight_decay",
            "ema",
            "r_drop",
            "patience",
            "validate_minutes",
            "validate_bleu",
            "samples",
            "threads",
            "seed",
        ):
            if getattr(self, key) < 0:
                found.append(f"{key} = {getattr(self, key)} must not be negative")
        for key in ("label_smoothing", "bpe_dropout", "momentum", "beta1", "beta2", "final_rate"):
            if not 0 <= getattr(self, key) < 1:
                found.append(f"{key} = {getattr(self, key)} must be from 0 up to, not including, 1")
        if not 0 < self.masked < 1:
            found.append(f"masked = {self.masked} must be above 0 and below 1")
        for key in ("learning_rate", "matrix_rate"):
            if getattr(self, key) <= 0:
                found.append(f"{key} = {getattr(self, key)} must be above 0")
        if self.schedule in ("cosine", "linear") and not (
            self.max_steps or self.max_epochs or self.max_minutes
        ):
            found.append(
                f"schedule = '{self.schedule}' must know the end: set max_steps, max_epochs or max_minutes"
            )
        if self.stop_on == "bleu" and not self.validate_bleu:
            found.append("stop_on = 'bleu' needs validate_bleu above 0")
        return found


@dataclass(frozen=True)
class Recipe:
    """All that makes a training run: the file that `glass train recipe.toml` reads."""

    task: Task = "translate"
    """what is learnt: text to text; the next token; hidden tokens; a label for a text, a word, an image"""
    model: ModelConfig = field(default_factory=ModelConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def problems(self) -> list[str]:
        """Settings that contradict the task; every section is fine by itself."""
        found = []
        if self.train.stop_on == "accuracy" and self.task not in LABELLED:
            found.append(f"train.stop_on = 'accuracy' needs labels: task = {' | '.join(LABELLED)}")
        if self.task == "translate":
            return found
        if self.model.architecture == "recurrent":
            found.append(f"model.architecture = 'recurrent' translates; it can't do task = '{self.task}'")
        if self.train.stop_on == "bleu":
            found.append(f"train.stop_on = 'bleu' is for translation, not for task = '{self.task}'")
        if self.model.neighbours:
            found.append("model.neighbours works for task = 'translate' only")
        for key in ("bpe_dropout", "r_drop"):
            if getattr(self.train, key):
                found.append(f"train.{key} works for task = 'translate' only")
        if self.task == "language_model":
            if any(corpus.weight != 1 for corpus in self.data.corpora):
                found.append("data.corpora: weight has no meaning for a language model's running text")
            if not self.data.max_tokens:
                found.append("data.max_tokens = 0: a language model needs the length of its blocks there")
        return found
