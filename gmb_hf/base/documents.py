"""YAML documents that are pydantic models: reading, writing, and errors that name the path.

The reader is `yaml.SafeLoader` with three changes that spare a surprise: a key given twice is
refused instead of silently winning, `1e-3` is a number as in YAML 1.2 and JSON, and an unquoted
date stays text. It is the only reader of YAML: what would exhaust memory, time or the stack
(nesting, aliases that repeat each other, endless numbers) is refused before anything is built.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

import numpy as np
import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo

from gmb_hf.base.errors import InputError, nearest, unknown
from gmb_hf.base.files import DEEPEST, read_json, read_text, write_text

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
_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}  # else bad_value


def faults(error: ValidationError, model: type[Section]) -> list[str]:
    """Every fault of a document in a line that begins with its path."""
    return _lines(error.errors(include_url=False), model)


def _lines(errors: Sequence[Any], model: type[Section]) -> list[str]:
    return list(dict.fromkeys(_explain_one(item, model) for item in _one_for_each_place(errors)))


def _refusal(errors: Sequence[Any], model: type[Section], where: str) -> InputError:
    """The first faults in one line, with the code and the path of the first."""
    lines, first = _lines(errors, model), errors[0]
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return InputError(
        f"{where}: {'; '.join(lines[:3])}{more}",
        code=_CODES.get(first["type"], "bad_value"),
        where=where,
        field=path_text(first["loc"]) or None,
    )


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


def _explain_one(item: Any, model: type[Section]) -> str:
    location, kind, got = item["loc"], item["type"], item["input"]
    path = path_text(location)
    if kind == "extra_forbidden":
        known = model.fields_at(location[:-1])
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
        kinds = [one for one in kinds if one != "a whole number" or "a number" not in kinds]
        return f"{subject} must be {' or '.join(kinds)}{shown}"
    if kind == "value_error":
        return f"{subject}: {item['ctx']['error']}" if path else str(item["ctx"]["error"])
    return f"{subject} {item['msg'].replace('Input should be', 'must be')}{shown}"


def path_text(location: tuple[int | str, ...]) -> str:
    """`("candidates", 0, "name")` as `candidates[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def section_in(annotation: Any) -> type[Section] | None:
    """The section that an annotation holds, alone, in a sequence or optional; None where none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    held = get_origin(annotation) in (tuple, list, dict, Union, UnionType, Annotated)
    found = map(section_in, get_args(annotation) if held else ())
    return next((inner for inner in found if inner is not None), None)


def _bare(annotation: Any) -> Any:
    """An annotation without its constraints, and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        inner = [part for part in get_args(annotation) if part is not type(None)]
        return _bare(inner[0]) if len(inner) == 1 else annotation
    return annotation


def choices_in(annotation: Any) -> tuple[Any, ...]:
    """The values that a field may take, where they are listed; else nothing."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def scalar_in(annotation: Any) -> type | None:
    """bool, int, float or str where a field takes just that, or None; None where it does not."""
    bare = _bare(annotation)
    kinds = {type(value) for value in choices_in(bare)} or {bare}
    return kinds.pop() if len(kinds) == 1 and kinds < {bool, int, float, str} else None


def items_in(annotation: Any) -> type | None:
    """The same of the items of a list."""
    bare = _bare(annotation)
    return scalar_in(get_args(bare)[0]) if get_origin(bare) is tuple else None


def unit_of(field: FieldInfo) -> str | None:
    """The unit of a field, a word beside its bounds: `Annotated[int, Field(ge=1), "steps"]`."""
    own = (one for one in field.metadata if isinstance(one, str))
    return next(own, None) or _unit_in(field.annotation)


def _unit_in(annotation: Any) -> str | None:
    own = (one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, str))
    return next(own, None) or next(filter(None, map(_unit_in, get_args(annotation))), None)


def read_value(annotation: Any, text: str, *, where: str) -> Any:
    """What a person typed as a value of a field's type; `where` opens the message of an error.

    `none` is None where that is allowed, a list has commas, `0:32` among whole numbers is 0 to 31,
    and what is neither a list nor a number, text, true or false is written as in YAML.
    """
    text, kind, items = text.strip(), scalar_in(annotation), items_in(annotation)
    if text.lower() in ("none", "null") and type(None) in get_args(annotation):
        return None
    if items is int:
        parts = [part.partition(":") for part in text.split(",")]
        try:
            ranges = [range(int(a), int(b) if colon else int(a) + 1) for a, colon, b in parts]
        except ValueError:
            hint = "write whole numbers with commas, e.g. 80,100,120 or 0:32"
            raise InputError(f"{where}: {hint}") from None
        return tuple(number for some in ranges for number in some)
    if items is not None:
        return tuple(_typed(items, part.strip(), where) for part in text.split(","))
    return parse_yaml(text, where=where) if kind is None else _typed(kind, text, where)


_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WANTED = {bool: "true or false", int: "a whole number", float: "a number"}


def _typed(kind: type, text: str, where: str) -> Any:
    try:
        return _TRUTH[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise InputError(f"{where}: expected {_WANTED[kind]}, got {text!r}") from None


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
            raise _refusal(error.errors(include_url=False), cls, where) from None

    @classmethod
    def fields_at(cls, location: tuple[int | str, ...]) -> list[str]:
        """The keys that the document has at a location, found by walking the annotations."""
        current: type[Section] = cls
        for part in location:
            field = current.model_fields.get(part) if isinstance(part, str) else None
            if field is not None:
                current = section_in(field.annotation) or current
        return list(current.model_fields)

    def __repr__(self) -> str:
        """A line: the fields that are set, as many as fit; of what is long, how long it is."""
        shown, room = [], 160
        for name, value in self:
            if value is not None and room > 0:
                shown.append(f"{name}={_brief(value)}")
                room -= len(shown[-1])
        return f"{type(self).__name__}({', '.join(shown)}{', ...' if room <= 0 else ''})"

    def __str__(self) -> str:
        return repr(self)

    def plain(self, exclude: Mapping[Any, Any] | None = None) -> dict[str, Any]:
        """The document as dicts, lists, strings and numbers; what is unset (None) is left out.

        So is what `exclude` says, in the words of pydantic's `model_dump`.
        """
        dumped = self.model_dump(exclude_none=True, exclude=exclude)
        return dict(plain_data(dumped, number=float))

    def as_read(self) -> dict[str, Any]:
        """The same without what no file or caller gave: what a later version added is not there."""
        dumped = self.model_dump(exclude_none=True, exclude_unset=True)
        return dict(plain_data(dumped, number=float))


def _brief(value: Any) -> str:
    """A field as one word or a few."""
    if isinstance(value, Section):
        return f"{type(value).__name__}(...)"
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}" if value else "{}"
    if isinstance(value, (list, tuple)):
        few = len(value) <= 4 and all(type(item) in (int, float, bool) for item in value)
        return repr(list(value)) if few else f"[{len(value)} items]"
    return reprlib.repr(value)


class OpenSection(Section):
    """A section that anybody may extend: unknown keys are kept if they begin with `x_`."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"additionalProperties": False, "patternProperties": {"^x_": {}}},
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict) and (others := data.keys() - cls.model_fields.keys()):
            for key in data:
                if key in others and not str(key).startswith("x_"):
                    raise UnknownKey(key, cls)
        return data


class UnknownKey(ValueError):
    """A key that an open section does not know; the nearest one that it does is named."""

    def __init__(self, key: Any, section: type[BaseModel]) -> None:
        guess = nearest(str(key), section.model_fields)
        own = (name for name in section.model_fields if not name.startswith("x_"))
        hint = f"did you mean {guess}?" if guess else f"known: {', '.join(own)}"
        super().__init__(f"{key} is unknown; {hint} (extensions begin with x_)")
        self.key = key


Number = FiniteFloat | None
"""A measured number; null where it does not exist."""
Count = Annotated[int, Field(ge=0)]
Measured = Annotated[FiniteFloat, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "null"}]})]
"""A number that the schema v0.4 lets be null, and that is there whenever we write its section."""


def load_yaml(path: str | Path) -> Any:
    """Parse one YAML file with the safe loader.

    Raises:
        InputError: the file is missing, empty, not UTF-8, no YAML, or repeats a key.
    """
    return parse_yaml(read_text(path, most=_LARGEST), where=str(path))


def load_document(path: str | Path) -> Any:
    """Parse a YAML file, or a JSON file where the name ends in .json.

    Raises:
        InputError: as `load_yaml` or `read_json`.
    """
    return read_json(path) if Path(path).suffix == ".json" else load_yaml(path)


_LARGEST, _LONGEST = 2**26, 300  # characters of a document and of an integer
_MOST_VALUES, _MOST_REPEATED = 1_000_000, 10_000


def parse_yaml(text: str, *, where: str) -> Any:
    """Parse YAML text; `where` opens the message of an error."""
    if len(text) > _LARGEST:
        raise _unreadable(where, f" is larger than {_LARGEST >> 20} MB")
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}:" if mark else ""
        raise _unreadable(where, f"{line} {error.problem or 'is not YAML'}") from None
    except yaml.YAMLError as error:
        raise _unreadable(where, f" is not YAML: {str(error).splitlines()[0]}") from None
    except UnicodeEncodeError:
        raise _unreadable(where, " holds a character that is not Unicode") from None
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise _unreadable(where, f" a value is not of its type: {error}") from None
    if data is None:
        raise _unreadable(where, " is empty")
    return data


def front_matter(text: str, *, where: str) -> dict[str, Any]:
    """The YAML mapping between two lines of `---` at the head of a text."""
    lines = text.splitlines()
    if not lines or lines[0] != _FENCE or _FENCE not in lines[1:]:
        raise InputError(f"{where}: has no YAML header between two lines of {_FENCE}")
    header = parse_yaml("\n".join(lines[1 : lines.index(_FENCE, 1)]), where=where)
    if not isinstance(header, dict):
        raise InputError(f"{where}: its header is no mapping of keys")
    return header


_FENCE = "---"


def _check_events(text: str) -> None:
    """Refuse what is nested too deeply, refers to itself, or repeats too much by its aliases."""
    values = repeated = 0
    begun: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}  # anchor -> how many values it stands for
    for event in yaml.parse(text, Loader=Loader):
        fault = None
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            sizes |= {anchor: values - before} if anchor else {}
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            if isinstance(event, yaml.AliasEvent):
                if any(event.anchor == anchor for anchor, _ in begun):
                    fault = f"*{event.anchor} stands within itself"
                values += sizes.get(event.anchor, 1)
                repeated += sizes.get(event.anchor, 1)
            elif isinstance(event, yaml.CollectionStartEvent):
                begun.append((event.anchor, values))
        if len(begun) > DEEPEST:
            fault = f"is nested too deeply; {DEEPEST} levels are the most"
        if repeated > _MOST_REPEATED:
            fault = f"its aliases repeat more than {_MOST_REPEATED:,} values; write them out"
        if values > _MOST_VALUES + repeated:
            fault = f"holds more than {_MOST_VALUES:,} values"
        if fault:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=fault, problem_mark=mark)


def _unreadable(where: str, reason: str) -> InputError:
    return InputError(f"{where}:{reason}", code="unreadable", where=where)


def dump_yaml(data: Any) -> str:
    """YAML text of plain data: keys in the given order, short lists on one line."""
    text: str = yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def write_yaml(path: str | Path, data: Any, *, heading: str = "") -> Path:
    """Write plain data as YAML, atomically, with comment lines above it."""
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return write_text(path, comment + dump_yaml(data))


_SCALARS = frozenset((str, int, bool, type(None)))


def _known(value: float) -> float | None:
    return value if value == value else None


def plain_data(value: Any, *, number: Callable[[float], Any] = _known) -> Any:
    """`value` as dicts with text as keys, lists and Python scalars, ready for YAML or JSON.

    `number` is called with each float: by default NaN becomes None, and infinity stays.
    """
    return _plain(value, number)


def _plain(value: Any, number: Callable[[float], Any]) -> Any:
    # Results hold tens of thousands of values: exact types first, scalars without a call.
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is float:
        return number(value)
    if kind is dict:
        return {
            key if type(key) is str else str(key): (
                item if type(item) in _SCALARS else _plain(item, number)
            )
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [item if type(item) in _SCALARS else _plain(item, number) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return _plain(fields, number)
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist(), number)
    if isinstance(value, Mapping):
        return _plain(dict(value), number)
    if isinstance(value, (list, tuple)):
        return _plain(list(value), number)
    return number(value) if isinstance(value, float) else value


class _StrictLoader(Loader):  # type: ignore[misc]
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, mark in ((one.value, one.start_mark) for one, _ in node.value):
            if isinstance(key, str) and key in seen:
                problem = f"key {key!r} is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            seen |= {key} if isinstance(key, str) else set()
        return super().construct_mapping(node, deep=deep)


def _integer(loader: Any, node: Any) -> int:
    try:
        if len(node.value) <= _LONGEST and abs(value := loader.construct_yaml_int(node)) < 2**63:
            return int(value)
    except (ValueError, IndexError):
        pass
    problem = f"{node.value[:24]!r} is no integer of 64 bits"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _integer)

# Resolvers are kept per first character; dates go, numbers such as 1e-3 come in.
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}
_EXPONENT = re.compile(r"^[-+]?\d[\d.]*[eE][-+]?\d+$")
_BARE_EXPONENT = ("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
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


# A flat model whose fields have dotted places in a nested document.


def at(place: str, default: Any, help: str = "", *, example: Any = None, **views: Any) -> Any:
    """A field of a `Document`.

    Args:
        place: its dotted path in the document, e.g. `event.window_W_event`.
        default: its value where the document has none; `...` where it is required.
        help: what it means, in one line; the text below the field unless given.
        example: what a template shows in place of the default.
        views: what else is declared of it, see `Document.views`.
    """
    return Field(
        default,
        description=help or None,
        examples=None if example is None else [example],
        json_schema_extra={"place": place, **views},
    )


class Document(Section):
    """A flat model with a nested YAML document as one of its views.

    Fields are declared by `at`, in the order of the document. Errors name the path in the document.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: ClassVar[str] = "document"
    """What messages call it."""
    sections: ClassVar[Mapping[str, str]] = {}
    """Dotted path of each section -> what it holds."""

    @classmethod
    def views(cls, name: str) -> dict[str, Any]:
        """What is declared of a field beside its type: its `place`, and whatever `at` was given."""
        return dict(cls.model_fields[name].json_schema_extra or {})  # type: ignore[arg-type]

    @classmethod
    def places(cls) -> dict[str, str]:
        """Name of each field -> its dotted path in the document."""
        return {name: cls.views(name)["place"] for name in cls.model_fields}

    @classmethod
    @functools.cache
    def nested(cls) -> type[Section]:
        """The document as it is written, each section a model."""
        return _nested({place: cls.model_fields[name] for name, place in cls.places().items()}, cls)

    @classmethod
    def of(cls, fields: Mapping[str, Any], *, where: str = "") -> Self:
        """Build one from fields by their names; errors begin with `where`, else with the kind.

        Raises:
            InputError: a field is unknown (the nearest is named) or out of range.
        """
        for name in fields:
            if name not in cls.model_fields:
                raise unknown(f"{cls.kind} field", name, cls.model_fields)
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            wrong, places = error.errors(include_url=False), cls.places()
            for item in wrong:
                if item["loc"]:
                    field, *rest = item["loc"]
                    item["loc"] = (*places[str(field)].split("."), *rest)
            raise _refusal(wrong, cls.nested(), where or cls.kind) from None

    @classmethod
    def parse(cls, data: Any, *, where: str) -> Self:
        """Read a nested document; see `Section.parse`."""
        if data == {}:  # no section is there that could lack something
            return cls.of({}, where=where)
        document = cls.nested().parse(data, where=where)
        find = {name: operator.attrgetter(place) for name, place in cls.places().items()}
        return cls.of({name: get(document) for name, get in find.items()}, where=where)

    def replace(self, **fields: Any) -> Self:
        """A copy with some fields changed, checked like a new document."""
        return self.of({**self.model_dump(mode="python", exclude_none=True), **fields})

    def plain(self, exclude: Mapping[Any, Any] | None = None) -> dict[str, Any]:
        """The nested document as plain data; optional fields that are unset are left out."""
        values = super().plain(exclude)
        document: dict[str, Any] = {}
        for name, place in self.places().items():
            if name in values:
                *sections, last = place.split(".")
                inner = document
                for section in sections:
                    inner = inner.setdefault(section, {})
                inner[last] = values[name]
        return document

    def section(self, path: str) -> dict[str, Any]:
        """The fields of one section by their keys in the document, e.g. of `boundary`."""
        return {
            place.removeprefix(f"{path}."): getattr(self, name)
            for name, place in self.places().items()
            if place.startswith(f"{path}.")
        }

    @classmethod
    def template(cls) -> str:
        """YAML that loads as this document, a comment beside each key.

        Fields without a default hold an example.
        """
        return "\n".join(_section_lines(cls.nested(), "")) + "\n"

    def commented(self) -> str:
        """The document as YAML, a comment beside each key."""
        return "\n".join(_section_lines(self.nested(), "", self.plain())) + "\n"


def _nested(
    fields: Mapping[str, FieldInfo], document: type[Document], path: str = ""
) -> type[Section]:
    """The model of a section of a document, from its fields by their dotted paths in it."""
    inside: dict[str, dict[str, FieldInfo]] = {}
    for place, field in fields.items():
        key, _, rest = place.partition(".")
        inside.setdefault(key, {})[rest] = field
    made: dict[str, Any] = {}
    for key, parts in inside.items():
        if "" in parts:
            made[key] = (parts[""].annotation, parts[""])
            continue
        inner = _nested(parts, document, f"{path}{key}.")
        required = any(field.is_required() for field in inner.model_fields.values())
        made[key] = (inner, Field(... if required else inner()))
    about = document.sections.get(path.removesuffix("."))
    return create_model(document.__name__, __base__=Section, __doc__=about, **made)


_COLUMN = 44  # of the comments


def _section_lines(
    section: type[Section], indent: str, said: Mapping[str, Any] | None = None
) -> list[str]:
    """The fields of a section with what they are `said` to hold, else as a template has them."""
    fields = section.model_fields.items()
    if said is None:
        return [line for name, field in fields for line in _yaml_lines(name, field, indent)]
    return [
        line for name, field in fields for line in _said_lines(name, field, indent, said.get(name))
    ]


def _yaml_lines(key: str, field: FieldInfo, indent: str) -> list[str]:
    """A field as it stands in a template; a list of sections holds one of them as an example."""
    inner = section_in(field.annotation)
    alone = inner is field.annotation
    if inner is None or field.examples == [()]:  # a list that is best begun empty
        value: Any = field.get_default(call_default_factory=False)
        if field.is_required() or field.default_factory is not None:
            value = (field.examples or [None])[0]
        return [_with_comment(f"{indent}{key}: {_inline(value)}", field.description)]
    first = _with_comment(f"{indent}{key}:", inner.__doc__)
    if alone:
        return [first, *_section_lines(inner, f"{indent}  ")]
    item = _section_lines(inner, f"{indent}    ")
    return [first, f"{indent}  - {item[0].strip()}", *item[1:]]


def _said_lines(key: str, field: FieldInfo, indent: str, value: Any) -> list[str]:
    inner = section_in(field.annotation)
    about = field.description
    if about is None and inner is not None:
        about = inner.__doc__
    if inner is field.annotation and inner is not None:
        first = _with_comment(f"{indent}{key}:", about)
        return [first, *_section_lines(inner, f"{indent}  ", value)]
    if inner is None or not isinstance(value, list) or not value:
        return [_with_comment(f"{indent}{key}: {_inline(value)}", about)]
    items = [f"{indent}  - {_inline(item)}" for item in value]
    return [_with_comment(f"{indent}{key}:", about), *items]


def _with_comment(text: str, comment: str | None) -> str:
    gap = " " * max(2, _COLUMN - len(text))
    return f"{text}{gap}# {comment}" if comment else text


def _inline(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inline(k)}: {_inline(v)}" for k, v in value.items()) + "}"
    return dump_yaml(plain_data(value)).removesuffix("...\n").strip()


# What a layer returns: a frozen dataclass that also shows itself as plain data.


class Record:
    """Mixin of the frozen dataclasses that hold results."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as dicts, lists and Python numbers; NaN becomes None, infinity stays."""
        return dict(plain_data(self))
