"""YAML documents that are pydantic models: reading, writing, and errors that name the path.

The reader is `yaml.SafeLoader` with three changes that spare a surprise: a key given twice is
refused instead of silently winning, `1e-3` is a number as in YAML 1.2 and JSON, and an unquoted
date stays text.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gmb_hf.files import write_text
from gmb_hf.jsonfile import each_key_once
from gmb_hf.preregistration.document_errors import explain
from gmb_hf.validation import InputError

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A sequence that reads from a YAML list; its items stay strictly typed."""

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Section(BaseModel):
    """One mapping of a document: immutable, strictly typed, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    @classmethod
    def parse(cls, data: Any, *, where: str) -> Self:
        """Validate plain data; `where` (a file name, say) opens the message of an error.

        Raises:
            InputError: one line that names the path of each wrong field.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error, cls)}") from None

    def plain(self) -> dict[str, Any]:
        """The document as dicts, lists, strings and numbers; optional fields that are unset
        (None) are left out."""
        plain: dict[str, Any] = json_like(self.model_dump(mode="python", exclude_none=True))
        return plain


def load_yaml(path: str | Path) -> Any:
    """Parse one YAML file with the safe loader.

    Raises:
        InputError: the file is missing, empty, not UTF-8, no YAML, or repeats a key.
    """
    source = Path(path)
    return parse_yaml(_read(source), where=str(source))


def _read(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{source}: this is a folder; name the YAML file in it") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: is not UTF-8 text (byte {error.start})") from None


def load_document(path: str | Path) -> Any:
    """Parse a YAML file, or a JSON file where the name ends in .json.

    Raises:
        InputError: as `load_yaml`; or it is no JSON, or repeats a key.
    """
    source = Path(path)
    if source.suffix != ".json":
        return load_yaml(source)
    text = _read(source)
    try:
        return json.loads(text, object_pairs_hook=each_key_once)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}: line {error.lineno}: is not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{source}: is nested too deeply") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def parse_yaml(text: str, *, where: str) -> Any:
    """Parse YAML text; `where` opens the message of an error."""
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}:" if mark else ""
        raise InputError(f"{where}:{line} {error.problem or 'is not YAML'}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{where}: is not YAML: {str(error).splitlines()[0]}") from None
    if data is None:
        raise InputError(f"{where}: is empty")
    return data


def dump_yaml(data: Any) -> str:
    """YAML text of plain data: keys in the given order, short lists on one line."""
    text: str = yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def write_yaml(path: str | Path, data: Any, *, heading: str = "") -> Path:
    """Write plain data as YAML, atomically, with comment lines above it."""
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return write_text(path, comment + dump_yaml(data))


def json_like(value: Any) -> Any:
    """The value with tuples as lists and keys as strings, recursively."""
    if isinstance(value, Mapping):
        return {str(key): json_like(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_like(item) for item in value]
    return value


def canonical_hash(data: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of plain data.

    Keys are sorted, there is no white space, floats are written by `repr`; an infinity is the
    string ".inf" and NaN is refused, since JSON has neither.

    Raises:
        InputError: a value is NaN.
    """
    text = json.dumps(_finite(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise InputError("a document holds NaN where a number or .inf is needed")
        return ".inf" if value > 0 else "-.inf"
    return value


class _StrictLoader(Loader):  # type: ignore[misc]
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key, str) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


# Resolvers are kept per first character; dates go, numbers such as 1e-3 come in.
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}
_BARE_EXPONENT = (
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?\d[\d.]*[eE][-+]?\d+$"),
    list("-+0123456789"),
)
_StrictLoader.add_implicit_resolver(*_BARE_EXPONENT)


class _PlainDumper(Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: Any, data: Any) -> Any:
    flat = all(item is None or isinstance(item, (str, int, float)) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


def _represent_dict(dumper: Any, data: Any) -> Any:
    # A few numbers side by side read best on one line: {target: 0.05, achieved: 0.048}.
    short = 0 < len(data) <= 4 and all(isinstance(item, (int, float)) for item in data.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=short)


# What the loader takes for a number is written in quotes where it is text: a name such as 0E0.
_PlainDumper.add_implicit_resolver(*_BARE_EXPONENT)
_PlainDumper.add_representer(list, _represent_list)
_PlainDumper.add_representer(dict, _represent_dict)
_PlainDumper.add_representer(tuple, _represent_list)
