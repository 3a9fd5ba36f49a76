"""What is wrong with a document, in lines that name the path of each fault."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gmb_hf.validation import nearest

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
