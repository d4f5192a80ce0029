"""The files of a Hugging Face directory, read with suspicion: settings, shards, and a Marian tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glassformer.errors import TokenizerError
from glassformer.formats.names import token_names
from glassformer.text.mapped import MappedTokenizer, table_problems
from glassformer.text.pieces import SentencePieceTokenizer
from glassformer.text.tokenizer import Tokenizer, TokenizerPair

WHOLE, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
LARGEST_TABLE = 64 * 2**20
"""bytes of a JSON file; the largest vocabularies have a few million"""


class Table:
    """A JSON object. What is asked of it and wrong is added to `problems`, and a stand-in is returned."""

    def __init__(self, content: dict[str, Any], name: str, problems: list[str]) -> None:
        self.content, self.name, self.problems = content, name, problems

    def number(self, key: str, default: int | None = None, *, least: int = 0, most: int = 2**24) -> int:
        value = self.content.get(key, default)
        if type(value) is not int or not least <= value <= most:
            self.problems.append(
                f"{self.name}: {key} = {value!r} must be a whole number from {least} to {most}"
            )
            return least
        return value

    def share(self, key: str, default: float) -> float:
        value = self.content.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            self.problems.append(f"{self.name}: {key} = {value!r} must be from 0 up to, not including, 1")
            return default
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.content.get(key, default)
        if not isinstance(value, bool):
            self.problems.append(f"{self.name}: {key} = {value!r} must be true or false")
            return default
        return value

    def text(self, key: str, default: str = "") -> str:
        """Text; a special token may also be an object with its text as `content`."""
        value = self.content.get(key)
        if isinstance(value, dict):
            value = value.get("content")
        return value if isinstance(value, str) else default


def read_table(path: Path, problems: list[str], *, required: bool = True) -> Table:
    """A JSON object from a file; an empty one if there is none."""
    content: Any = {}
    if not path.is_file():
        if required:
            problems.append(f"{path.name} is missing")
    elif path.stat().st_size > LARGEST_TABLE:
        problems.append(f"{path.name} has {path.stat().st_size} bytes: not a file of settings")
    else:
        try:
            content = json.loads(path.read_bytes().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            problems.append(f"{path.name} is not valid JSON: {error}")
        if not isinstance(content, dict):
            problems.append(f"{path.name} is not a JSON object")
    return Table(content if isinstance(content, dict) else {}, path.name, problems)


def weight_files(path: Path, problems: list[str]) -> list[Path]:
    """The safetensors file, or all its shards. Nothing outside the directory, and no pickle."""
    if (path / WHOLE).is_file():
        return [path / WHOLE]
    if (path / INDEX).is_file():
        places = read_table(path / INDEX, problems).content.get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
            problems.append(f"{INDEX} has no weight_map from weights to files")
            return []
        names = sorted(set(places.values()))
        foreign = [name for name in names if not _plain(name)]
        if foreign:
            problems.append(
                f"{INDEX} names {', '.join(map(repr, foreign[:5]))}: refused, "
                "only plain .safetensors names in the same directory are read"
            )
            return []
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            problems.append(f"{INDEX} names files that are not there: {', '.join(missing)}")
        return [path / name for name in names if name not in missing]
    if (path / PICKLE).is_file():
        problems.append(
            f"{PICKLE} is refused: it is a pickle, and loading one runs the code inside it. "
            "Convert it where you trust it: "
            "AutoModelForSeq2SeqLM.from_pretrained(DIR).save_pretrained(OTHER) writes safetensors"
        )
    else:
        problems.append(f"{WHOLE} is missing")
    return []


def _plain(name: str) -> bool:
    return (
        name.endswith(".safetensors") and not set(name) & {"/", "\\", "\0", ":"} and not name.startswith(".")
    )


# --- tokenizer ---


def read_tokenizers(path: Path, config: Table, problems: list[str]) -> TokenizerPair | None:
    """The MarianTokenizer of a directory; None, and the reasons, if there is none that we understand."""
    settings = read_table(path / "tokenizer_config.json", problems, required=False)
    separate = settings.flag("separate_vocabs", False)
    if settings.content.get("sp_model_kwargs"):
        problems.append(f"tokenizer_config.json: sp_model_kwargs = {settings.content['sp_model_kwargs']!r}")
    before = len(problems)
    models, tables = {}, {}
    for side, vocabulary in (("source", "vocab.json"), ("target", "target_vocab.json")):
        table = vocabulary if separate else "vocab.json"
        if side == "source" or separate:
            tables[side] = read_table(path / table, problems).content
        spm = path / f"{side}.spm"
        if spm.is_file():
            models[side] = spm.read_bytes()
        else:
            problems.append(f"{spm.name} is missing: the tokenizer must be Marian's, with SentencePiece")
    if len(problems) > before:
        return None
    found = {
        side: _read_tokenizer(path / f"{side}.spm", models[side], table, settings, problems)
        for side, table in (("source", tables["source"]), ("target", tables.get("target", tables["source"])))
    }
    source, target = found["source"], found["target"]
    if source is None or target is None:
        return None
    _check_ids(source, target, config, separate, problems)
    if models["source"] == models["target"] and not separate:
        return TokenizerPair(source, source, shared=True)
    return TokenizerPair(source, target, shared=source.same_ids(target))


def _read_tokenizer(
    path: Path, model: bytes, ids: dict[str, Any], settings: Table, problems: list[str]
) -> Tokenizer | None:
    """SentencePiece as it is if the table only repeats its own ids; else with the table."""
    names = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
    names = {kind: settings.text(f"{kind}_token", default) for kind, default in names.items()}
    missing = [repr(name) for name in names.values() if name not in ids]
    if missing:
        problems.append(f"the vocabulary of {path.name} has no {', '.join(missing)}")
        return None
    specials = {kind: ids[name] for kind, name in names.items()}
    wrong = table_problems(ids, **specials)
    if wrong:
        problems += [f"the vocabulary of {path.name}: {reason}" for reason in wrong]
        return None
    try:
        mapped = MappedTokenizer(model, ids, **specials, origin=path)
    except TokenizerError as error:
        problems.append(str(error))
        return None
    try:
        plain = SentencePieceTokenizer(model, path)
    except TokenizerError:
        return mapped
    return plain if token_names(plain) == mapped.pieces(range(mapped.size)) else mapped


def _check_ids(
    source: Tokenizer, target: Tokenizer, config: Table, separate: bool, problems: list[str]
) -> None:
    """Do the tokenizer, the weights and the settings mean the same ids?"""
    sizes = {"vocab_size": source.size}
    if separate:
        sizes["decoder_vocab_size"] = target.size
    for key, size in sizes.items():
        stored = config.number(key, config.content.get("vocab_size"), least=3)
        if stored != size:
            problems.append(f"weights have {stored} entries, the vocabulary {size} ({key})")
    for key, has in (("eos_token_id", target.eos), ("pad_token_id", target.pad)):
        said = config.number(key)
        if said != has:
            problems.append(f"config.json: {key} = {said}, but the target's tokenizer says {has}")
    for name in ("eos", "unk"):
        if getattr(source, name) != getattr(target, name):
            problems.append(
                f"{name} is {getattr(source, name)} in the source's vocabulary, "
                f"but {getattr(target, name)} in the target's: they must be the same"
            )
