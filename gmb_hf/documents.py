"""YAML documents that are pydantic models: reading, writing, and errors that name the path.

The reader is `yaml.SafeLoader` with three changes that spare a surprise: a key given twice is
refused instead of silently winning, `1e-3` is a number as in YAML 1.2 and JSON, and an unquoted
date stays text.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Self, TypeVar, Union, get_args, get_origin

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from gmb_hf.errors import InputError, nearest
from gmb_hf.files import each_key_once, write_text

_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text (put it in quotes)",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}
_BRANCHES = ("int", "float", "str", "bool")  # how pydantic names the branches of a union


def faults(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Every fault of a document in a line that begins with its path."""
    lines: dict[str, None] = {}
    for item in _one_for_each_place(error.errors(include_url=False)):
        lines[_explain_one(item, model)] = None
    return list(lines)


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first faults in one line."""
    lines = faults(error, model)
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return "; ".join(lines[:3]) + more


def _one_for_each_place(errors: Sequence[Any]) -> list[dict[str, Any]]:
    """The errors, those that a union reports branch by branch as one: a number or text."""
    branches = Counter(item["loc"][:-1] for item in errors if _is_branch(item))
    merged: dict[Any, dict[str, Any]] = {}
    for number, item in enumerate(errors):
        if not _is_branch(item) or branches[item["loc"][:-1]] < 2:
            merged[number] = dict(item)
            continue
        place = item["loc"][:-1]
        first = merged.setdefault(place, {**item, "loc": place, "wanted": []})
        if _KINDS[item["type"]] not in first["wanted"]:
            first["wanted"].append(_KINDS[item["type"]])
    return list(merged.values())


def _is_branch(item: Any) -> bool:
    return bool(item["loc"]) and item["loc"][-1] in _BRANCHES and item["type"] in _KINDS


def _explain_one(item: Any, model: type[BaseModel]) -> str:
    location, kind, got = item["loc"], item["type"], item["input"]
    path = path_text(location)
    if kind == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        guess = nearest(str(location[-1]), known)
        hint = f"did you mean {guess}?" if guess else f"known: {', '.join(known)}"
        return f"{path} is unknown; {hint}"
    if kind == "missing":
        return f"{path} is required; add it"
    if location and location[-1] == "[key]":
        path = f"{path_text(location[:-2])}: the key {location[-2]}"
    subject = path or "the document"
    shown = f", got {reprlib.repr(got)}"
    if kind in _KINDS:
        kinds = item.get("wanted", [_KINDS[kind]])
        wanted = " or ".join(
            one for one in kinds if one != "a whole number" or "a number" not in kinds
        )
        return f"{subject} must be {wanted}{shown}"
    if kind == "value_error":
        return f"{subject}: {item['ctx']['error']}" if path else str(item["ctx"]["error"])
    message = item["msg"].replace("Input should be", "must be")
    return f"{subject} {message}{shown}"


def path_text(location: tuple[int | str, ...]) -> str:
    """`("candidates", 0, "name")` as `candidates[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The field names of the section at `location`, found by walking the annotations."""
    current = model
    for part in location:
        field = current.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            current = section_in(field.annotation) or current
    return list(current.model_fields)


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that an annotation holds, alone, in a sequence or optional; None where none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, list, dict, Union, UnionType, Annotated):
        for inner in get_args(annotation):
            found = section_in(inner)
            if found is not None:
                return found
    return None


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


# The text of an empty preregistration, a comment beside each field.


_HEAD = """\
# GMB preregistration, schema v0.4: fix it before a held-out run is looked at.
# Fields that begin with x_ are extensions of gmb-hf; everything has a default but
# labels.positive_window.horizon_steps and labels.negative_window.safe_gap_steps.
"""
_COLUMN = 44


def template(model: type[BaseModel]) -> str:
    """YAML that loads as `model`; fields without a default hold an example."""
    return _HEAD + "\n".join(_section(model, "")) + "\n"


def _section(model: type[BaseModel], indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in model.model_fields.items():
        inner = section_in(field.annotation)
        if inner is None or field.examples == [()]:  # a list that is best begun empty
            lines.append(_line(f"{indent}{name}: {_value(field)}", field.description))
        elif "tuple" in str(field.annotation):
            lines.append(f"{indent}{name}:" + _comment(f"{indent}{name}:", inner.__doc__))
            item = _section(inner, indent + "    ")
            lines.extend([f"{indent}  - {item[0].strip()}", *item[1:]])
        else:
            lines.append(f"{indent}{name}:" + _comment(f"{indent}{name}:", inner.__doc__))
            lines.extend(_section(inner, indent + "  "))
    return lines


def _line(text: str, description: str | None) -> str:
    return text + _comment(text, description)


def _comment(text: str, description: str | None) -> str:
    gap = " " * max(2, _COLUMN - len(text))
    return f"{gap}# {description}" if description else ""


def _value(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=False)
    if field.is_required() or field.default_factory is not None:
        value = (field.examples or [None])[0]
    return _inline(value)


def _inline(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(item)}" for key, item in value.items()) + "}"
    return dump_yaml(json_like(value)).removesuffix("...\n").strip()


# What a layer returns: a frozen dataclass that also shows itself as plain data.


class Record:
    """Mixin of the frozen dataclasses that hold results."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as dicts, lists and Python numbers; NaN becomes None, infinity stays."""
        plain: dict[str, Any] = plain_data(self)
        return plain


def plain_data(value: Any) -> Any:
    """`value` as dicts, lists and Python scalars, ready for YAML or JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain_data(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {_key(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [plain_data(item) for item in value]
    if isinstance(value, np.generic):
        return plain_data(value.item())
    if isinstance(value, float) and value != value:
        return None
    return value


def _key(key: Any) -> Any:
    # A target rate as a key is its exact decimal, as in a lock file.
    return repr(float(key)) if isinstance(key, float) else key
