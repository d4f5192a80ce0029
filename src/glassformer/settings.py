"""TOML ↔ frozen dataclasses: strict about keys and types, and every problem is reported at once.

Works on any dataclass whose fields are int, float, str, bool, `Literal`, another such dataclass, or a tuple
of these. A class may have a method `problems() -> list[str]` that says what is senseless about its values.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import math
import textwrap
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tomli_w

from glassformer import extend
from glassformer.config import PRESETS
from glassformer.errors import ConfigError

T = TypeVar("T")


def read(cls: type[T], path: str | Path, overrides: Sequence[str] = ()) -> T:
    """Read a TOML file into `cls`, then apply overrides such as `model.width=256`, in order."""
    path = Path(path)
    try:
        mapping = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError("there is no such file", path) from None
    except IsADirectoryError:
        raise ConfigError("this is a directory; a .toml file was expected", path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", path) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", path) from None
    return from_mapping(cls, mapping, origin=path, overrides=overrides)


def from_mapping(
    cls: type[T], mapping: Mapping[str, Any], origin: str | Path | None = None, overrides: Sequence[str] = ()
) -> T:
    """Build `cls` from nested dictionaries, or raise one ConfigError that lists every problem."""
    found: list[str] = []
    merged = _expand_preset(dict(mapping), found)
    for override in overrides:
        _apply_override(merged, override, found)
    value = _build(cls, merged, "", found)
    if found:
        raise ConfigError(found, origin)
    assert value is not None
    return value


def change(config: T, overrides: Sequence[str]) -> T:
    """A copy of `config` with `section.key=value` overrides applied."""
    return from_mapping(type(config), to_mapping(config), origin=None, overrides=overrides)


def to_mapping(config: Any) -> dict[str, Any]:
    """Nested dictionaries that `from_mapping` turns back into an equal object."""
    result: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            result[item.name] = to_mapping(value)
        elif isinstance(value, tuple):
            result[item.name] = [to_mapping(v) if dataclasses.is_dataclass(v) else v for v in value]
        else:
            result[item.name] = value
    return result


def dumps(config: Any) -> str:
    """The configuration as TOML text."""
    return tomli_w.dumps(to_mapping(config))


def describe(cls: type) -> str:
    """A commented TOML file with every key, its default and its meaning: what `glass config` prints."""
    lines: list[str] = []
    _describe(cls, cls(), "", lines)
    return "\n".join(lines).strip() + "\n"


def field_help(cls: type) -> dict[str, str]:
    """The string that stands under each field of a dataclass in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = following.value.value
    return docs


def _describe(cls: type, default: Any, prefix: str, lines: list[str]) -> None:
    docs, hints = field_help(cls), get_type_hints(cls)
    nested = []
    if prefix:
        lines += ["", f"[{prefix}]"]
    for item in dataclasses.fields(cls):
        value = getattr(default, item.name)
        if dataclasses.is_dataclass(value):
            nested.append((item.name, value))
            continue
        choices = (
            f" ({' | '.join(get_args(hints[item.name]))})" if get_origin(hints[item.name]) is Literal else ""
        )
        shown = "[]" if value == () else tomli_w.dumps({item.name: value}).split("=", 1)[1].strip()
        lines.append(f"# {docs.get(item.name, '')}{choices}")
        lines.append(f"{item.name} = {shown}")
    for name, value in nested:
        _describe(type(value), value, f"{prefix}.{name}" if prefix else name, lines)


def _expand_preset(mapping: dict[str, Any], found: list[str]) -> dict[str, Any]:
    """`model.preset` stands for the keys of a preset; keys written beside it win."""
    model = mapping.get("model")
    if not isinstance(model, dict) or "preset" not in model:
        return mapping
    own = {key: value for key, value in model.items() if key != "preset"}
    return {**mapping, "model": {**_preset(model["preset"], found), **own}}


def _preset(name: Any, found: list[str]) -> dict[str, Any]:
    if name not in PRESETS:
        found.append(f"model.preset = {name!r}: there are {', '.join(PRESETS)}{_nearest(str(name), PRESETS)}")
        return {}
    return PRESETS[name]


def _apply_override(mapping: dict[str, Any], override: str, found: list[str]) -> None:
    key, equals, text = override.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path):
        found.append(f"'{override}' is not an override; write it as section.key=value")
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string: model.norm=pre
    if path == ["model", "preset"]:
        mapping["model"] = {**mapping.get("model", {}), **_preset(value, found)}
        return
    place = mapping
    for part in path[:-1]:
        inner = place.get(part)
        place[part] = dict(inner) if isinstance(inner, dict) else {}
        place = place[part]
    place[path[-1]] = value


def _build(cls: type[T], mapping: Mapping[str, Any], prefix: str, found: list[str]) -> T | None:
    """One dataclass from one table. Problems are added to `found` with their full key."""
    hints = get_type_hints(cls)
    names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
    before = len(found)
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in names:
            found.append(f"unknown key {prefix}{key}{_nearest(key, names)}{_elsewhere(key, cls, prefix)}")
        else:
            values[key] = _convert(hints[key], value, prefix + key, found)
    if len(found) > before:
        return None
    config = cls(**values)
    found += [prefix + problem for problem in getattr(config, "problems", list)()]
    return config


def _convert(hint: Any, value: Any, key: str, found: list[str]) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            found.append(f"{key} = {value!r} must be a table: [{key}]")
            return None
        return _build(hint, value, f"{key}.", found)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            found.append(f"{key} = {value!r} must be a list")
            return None
        inner = get_args(hint)[0]
        return tuple(_convert(inner, item, f"{key}[{place}]", found) for place, item in enumerate(value))
    if get_origin(hint) is Literal:
        name = key.rpartition(".")[2]
        choices = [*get_args(hint), *extend.names(name)]
        if value not in choices:
            found.append(
                f"{key} = {value!r}: choose {' | '.join(map(str, choices))}"
                f"{_nearest(str(value), choices) or extend.hint(name)}"
            )
        return value
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        wanted = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}[
            hint
        ]
        found.append(f"{key} = {value!r} must be {wanted}")
    return value


def _nearest(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _elsewhere(key: str, cls: type, prefix: str) -> str:
    """A key put under the wrong table is the commonest slip: name the table where it belongs."""
    module = inspect.getmodule(cls)
    root = getattr(module, "Recipe", None) if isinstance(module, types.ModuleType) else None
    if root is None:
        return ""
    for section in dataclasses.fields(root):
        inner = get_type_hints(root)[section.name]
        if not dataclasses.is_dataclass(inner) or inner is cls:
            continue
        if key in [item.name for item in dataclasses.fields(inner)]:
            return f"; it belongs to [{section.name}]: {section.name}.{key}"
    return ""
