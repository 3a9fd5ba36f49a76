"""Every fault of a document at once, and other people's extensions set aside.

Reading a file stops at the first unknown key of a section; a file to be mended wants all of them.
A key that begins with `x_` belongs to whoever wrote the file: in a file that is not ours, one that
has the name of ours and another meaning is no fault.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gmb_hf.preregistration.document_errors import faults, path_text, section_in
from gmb_hf.preregistration.documents import Section
from gmb_hf.validation import nearest

Location = tuple[int | str, ...]


@dataclass(frozen=True)
class Checked:
    """A document beside its schema.

    Attributes:
        faults: one line each, beginning with the path; empty where it matches.
        set_aside: paths of extensions that are not ours and do not read as ours.
        content: the document without those, and without unknown keys.
    """

    faults: tuple[str, ...]
    set_aside: tuple[str, ...]
    content: Any


def check(model: type[Section], data: Any, *, ours: bool) -> Checked:
    """Hold a document against a model.

    Args:
        model: the schema.
        data: plain data.
        ours: whether this package wrote it; its extensions must then match as well.
    """
    content = copy.deepcopy(data)
    found = list(_without_unknown(model, content, (), ours))
    set_aside: list[str] = []
    while True:
        try:
            model.model_validate(content)
        except ValidationError as error:
            theirs = [] if ours else [at for at in _extensions(error) if _removed(content, at)]
            set_aside += [path_text(location) for location in theirs]
            if theirs:
                continue
            found += faults(error, model)
        return Checked(tuple(found), tuple(set_aside), content)


def _without_unknown(annotation: Any, value: Any, at: Location, ours: bool) -> Iterator[str]:
    """Name each key that no section knows, and take it out; not inside extensions of others."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if isinstance(value, dict):
            yield from _of_section(annotation, value, at, ours)
        return
    inner = [argument for argument in get_args(annotation) if section_in(argument) is not None]
    if not inner:
        return
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        for argument in inner:
            yield from _without_unknown(argument, value, at, ours)
    elif origin in (tuple, list) and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _without_unknown(inner[0], item, (*at, place), ours)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _without_unknown(inner[0], item, (*at, key), ours)


def _of_section(
    model: type[BaseModel], value: dict[Any, Any], at: Location, ours: bool
) -> Iterator[str]:
    known = model.model_fields
    for key in list(value):
        extension = str(key).startswith("x_")
        if key in known and (ours or not extension):
            yield from _without_unknown(known[key].annotation, value[key], (*at, key), ours)
        elif not extension:
            guess = nearest(str(key), known)
            own = ", ".join(name for name in known if not name.startswith("x_"))
            hint = f"did you mean {guess}?" if guess else f"known: {own}"
            yield f"{path_text((*at, str(key)))} is unknown; {hint} (extensions begin with x_)"
            del value[key]


def _extensions(error: ValidationError) -> list[Location]:
    """Where the extensions lie that a validation stumbled over."""
    places: dict[Location, None] = {}
    for item in error.errors(include_url=False):
        location = item["loc"]
        for depth, part in enumerate(location, start=1):
            if isinstance(part, str) and part.startswith("x_"):
                places[location[:depth]] = None
                break
    return list(places)


def _removed(content: Any, location: Location) -> bool:
    """Take out what lies there, if anything does."""
    *parents, last = location
    for part in parents:
        content = content[part]
    return content.pop(last, None) is not None
