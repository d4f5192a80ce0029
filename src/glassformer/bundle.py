"""A bundle: one directory that a person can copy, with everything that turns text into text.

    config.toml         languages, special ids, the shape of the network, how to search (BundleConfig)
    tokenizer.spm …     one tokenizer file, or one for each side
    model.safetensors   the weights; a matrix that is tied stands there once
    README.md           the model card: data, licence, metrics

Nothing in it can run code: weights are read by `glassformer.weights`, and a pickle is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic

import torch
from torch import Tensor, nn

from glassformer import settings
from glassformer.config import BundleConfig, VocabularyConfig
from glassformer.errors import BundleError
from glassformer.model.build import build_model, build_reader
from glassformer.model.families import FAMILY, Reader
from glassformer.model.seq2seq import Seq2Seq
from glassformer.text.tokenizer import TokenizerPair
from glassformer.weights import (
    atomic_directory,
    looks_like_pickle,
    pickle_refused,
    read_header,
    read_safetensors,
    write_safetensors,
)

__all__ = [
    "Bundle",
    "find",
    "load_reader",
    "load_weights",
    "read_safetensors",
    "shipped",
    "weights_of",
    "write_safetensors",
]

CONFIG, WEIGHTS, CARD = "config.toml", "model.safetensors", "README.md"
RESULT = "model"
"""where a training run puts its bundle, inside its own directory"""

COMMANDS = {
    "language_model": ("continues texts", "glass generate"),
    "masked_language_model": ("guesses hidden words", "glass fill, or fine-tune it with train.start_from"),
    "classify": ("gives texts a label", "glass classify"),
    "tag": ("gives words a label", "glass tag"),
    "image": ("gives images a label", "glass classify"),
    "translate": ("translates", "glass translate"),
}
"""what a model of each task does, and what to use it with"""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Model = TypeVar("Model", bound=nn.Module, default=Seq2Seq)
else:
    from typing import TypeVar

    Model = TypeVar("Model")


@dataclass
class Bundle(Generic[Model]):
    """A model with what it needs to be used: `Bundle.load("my-model")`, `bundle.save("copy")`.

    `Bundle` alone is one that translates; `load_reader` loads the rest of the family, `Bundle[Reader]`.
    """

    config: BundleConfig
    tokenizers: TokenizerPair
    model: Model
    card: str = ""
    path: Path | None = None

    @classmethod
    def load(
        cls, path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Bundle:
        """Read and check a bundle; weights become `dtype` (or float32), whatever they are stored in."""
        path, config, tokenizers = _read(path, ("translate",))
        # The initial weights are thrown away: leave the caller's random numbers alone.
        with torch.random.fork_rng(devices=[]):
            model = build_model(config.model, config.vocabulary)
        _fill(model, path, config, device, dtype)
        return Bundle(config, tokenizers, model, _card(path), path)

    def save(self, path: str | Path, dtype: torch.dtype | None = None) -> Path:
        """Write the bundle under `path`, all of it or nothing; `dtype=torch.float16` halves the file."""
        path = Path(path)
        if path.exists() and not _may_replace(path):
            raise BundleError(f"{path} exists and is not a bundle: it is left as it is; choose another name")
        with atomic_directory(path) as temporary:
            self.write(temporary, dtype)
        self.path = path
        return path

    def write(self, directory: Path, dtype: torch.dtype | None = None) -> None:
        """Write the files into an existing directory; a checkpoint adds its own. `save` is the safe way."""
        (directory / CONFIG).write_text(settings.dumps(self.config), "utf-8")
        self.tokenizers.save(directory)
        (directory / CARD).write_text(self.card, "utf-8")
        weights = weights_of(self.model)
        if dtype is not None:
            weights = {name: w.to(dtype) if w.is_floating_point() else w for name, w in weights.items()}
        write_safetensors(directory / WEIGHTS, weights)


def load_reader(
    path: str | Path,
    tasks: Collection[str] = tuple(FAMILY),
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> Bundle[Reader]:
    """`Bundle.load` for the rest of the family; a bundle of another task than these is refused."""
    path, config, tokenizers = _read(path, tasks)
    with torch.random.fork_rng(devices=[]):
        model = build_reader(config.task, config.model, config.vocabulary)
    _fill(model, path, config, device, dtype)
    return Bundle(config, tokenizers, model, _card(path), path)


def task_of(path_or_name: str | Path) -> str:
    """What the model of a bundle does."""
    return settings.read(BundleConfig, find(path_or_name) / CONFIG).task


def _read(path: str | Path, tasks: Collection[str]) -> tuple[Path, BundleConfig, TokenizerPair]:
    """All of a bundle but its weights, checked."""
    path = find(path)
    config = settings.read(BundleConfig, path / CONFIG)
    _check_whole(path / CONFIG)
    if config.task not in tasks:
        does, command = COMMANDS[config.task]
        wanted = " or ".join(COMMANDS[task][0] for task in tasks)
        raise BundleError(f"{path} {does}; here a model is needed that {wanted}. Use this one with {command}")
    tokenizers = TokenizerPair.load(path)
    _check_vocabulary(path, config.vocabulary, tokenizers)
    _check_size(path, config)
    return path, config, tokenizers


def _check_whole(path: Path) -> None:
    """Half of a TOML file is often valid TOML, and defaults would silently stand in for the rest."""
    if "[search]" not in path.read_text("utf-8-sig"):
        raise BundleError(f"{path} ends before its last table, [search]: it was cut short; copy it anew")


def _fill(
    model: nn.Module, path: Path, config: BundleConfig, device: str | torch.device, dtype: torch.dtype | None
) -> None:
    load_weights(model, path / WEIGHTS, config.vocabulary)
    model.to(device=device, dtype=dtype or torch.float32).eval()


def _card(path: Path) -> str:
    return (path / CARD).read_text("utf-8") if (path / CARD).is_file() else ""


def shipped() -> dict[str, Path]:
    """The bundles inside the package, by name."""
    folder = Path(__file__).parent / "bundles"
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{CONFIG}"))}


def find(path_or_name: str | Path) -> Path:
    """The directory of a bundle: a path (a training run's will do), or the name of a shipped one."""
    path = Path(path_or_name)
    if path.is_file():
        if looks_like_pickle(path):
            raise BundleError(pickle_refused(path))
        raise BundleError(f"{path} is a file; a bundle is a directory with {CONFIG} and {WEIGHTS}")
    if not path.is_dir():
        inside = shipped()
        if str(path_or_name) in inside:
            return inside[str(path_or_name)]
        offer = f"; the package brings {', '.join(inside)}" if inside else ""
        raise BundleError(f"{path}: there is no such bundle{offer}")
    if not (path / CONFIG).exists() and (path / RESULT / CONFIG).is_file():
        path = path / RESULT
    missing = [name for name in (CONFIG, WEIGHTS) if not (path / name).is_file()]
    if missing:
        pickles = sorted(
            other.name for other in path.iterdir() if other.suffix in {".pt", ".pth", ".bin", ".pkl"}
        )
        hint = f". {pickles[0]} is not read: loading a pickle runs the code inside it" if pickles else ""
        raise BundleError(f"{path} is not a bundle: {' and '.join(missing)} missing{hint}")
    return path


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and stored buffer once, under its first name, however many layers share it."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def load_weights(model: nn.Module, path: Path, vocabulary: VocabularyConfig | None = None) -> None:
    """Copy a weight file into `model`; names and shapes are compared before a single weight is read."""
    check_names(path, model, vocabulary)
    tensors = read_safetensors(path)
    broken = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        warnings.warn(f"{path}: weights that are not finite numbers: {_some(broken)}", stacklevel=3)
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            tensor.copy_(tensors[name])


def check_names(path: Path, model: nn.Module, vocabulary: VocabularyConfig | None = None) -> None:
    """Raise one BundleError that lists every missing, superfluous and misshapen weight of a file."""
    expected = {name: tuple(tensor.shape) for name, tensor in weights_of(model).items()}
    stored = {name: entry.shape for name, entry in read_header(path).entries.items()}
    reasons = []
    missing = [name for name in expected if name not in stored]
    extra = [name for name in stored if name not in expected]
    if missing:
        reasons.append(f"missing: {', '.join(missing)}")
    if extra:
        reasons.append(f"not part of the model: {', '.join(extra)}")
    sizes = {vocabulary.source_size, vocabulary.target_size} if vocabulary else set()
    for name, shape in expected.items():
        if name not in stored or stored[name] == shape:
            continue
        reason = f"{name} is {_shape(stored[name])}, the model needs {_shape(shape)}"
        if shape and shape[0] in sizes and len(stored[name]) == len(shape) and stored[name][1:] == shape[1:]:
            reason += f": weights have {stored[name][0]} entries, the vocabulary {shape[0]}"
        reasons.append(reason)
    if reasons:
        raise BundleError(f"{path} does not fit its configuration\n" + "\n".join(f"  - {r}" for r in reasons))


def _check_size(path: Path, config: BundleConfig) -> None:
    """Find out a configuration that asks for the moon before its model claims the memory."""
    model, vocabulary = config.model, config.vocabulary
    attention = model.heads * (model.head_width or model.width // model.heads)
    layers = model.encoder_layers * (config.task != "language_model")
    layers += model.decoder_layers * (config.task in ("translate", "language_model"))
    layer = 2 * model.feed_forward + attention if model.architecture == "transformer" else 4 * model.width
    least = model.width * (layers * layer + vocabulary.target_size)
    stored = sum(math.prod(entry.shape) for entry in read_header(path / WEIGHTS).entries.values())
    if least > 2 * stored + 10**7:  # anything smaller can be built, and then every wrong weight is named
        raise BundleError(
            f"{path / WEIGHTS} does not fit its configuration: {layers} layers of {model.width} are at least "
            f"{least:,} weights, the file has {stored:,}"
        )


def _check_vocabulary(path: Path, vocabulary: VocabularyConfig, tokenizers: TokenizerPair) -> None:
    for side, said, has in (
        ("source", vocabulary.source_size, tokenizers.source.size),
        ("target", vocabulary.target_size, tokenizers.target.size),
    ):
        if said != has:
            raise BundleError(
                f"{path}: weights have {said} entries, the vocabulary {has} ({side} side): "
                "the tokenizer is not the one that this model was trained with"
            )


def _may_replace(path: Path) -> bool:
    return path.is_dir() and ((path / CONFIG).is_file() or not any(path.iterdir()))


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a single number"


def _some(names: list[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
