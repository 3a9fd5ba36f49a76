"""Every fault of a document at once, and other people's extensions (`x_` keys) set aside."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from pydantic import ValidationError

from gmb_hf.base.documents import Section, UnknownKey, faults, path_text

Location = tuple[int | str, ...]


class CheckedDocument(NamedTuple):
    """A document beside its schema: faults, one line each, that begin with the path; paths of
    extensions that are not ours and do not read as ours; the document without those, and without
    unknown keys."""

    faults: tuple[str, ...]
    set_aside: tuple[str, ...]
    content: Any


def check(model: type[Section], data: Any, *, ours: bool) -> CheckedDocument:
    """Hold plain data against a model; what is `ours` must match in its extensions as well."""
    content = copy.deepcopy(data)
    found: list[str] = []
    set_aside: list[str] = []
    while True:
        try:
            model.model_validate(content)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            # In extensions of others nothing is looked for.
            places = () if ours else [_extension(item["loc"]) for item in errors]
            aside = [at for at in dict.fromkeys(places) if at and _removed(content, at)]
            set_aside += map(path_text, aside)
            unknown = [item for item in errors if _names_unknown_key(item, ours=ours)]
            for item in unknown:
                where, fault = item["loc"], item["ctx"]["error"]
                found.append(".".join(filter(None, [path_text(where), str(fault)])))
                _removed(content, (*where, fault.key))
            if aside or unknown:
                continue
            found += faults(error, model)
        return CheckedDocument(tuple(found), tuple(set_aside), content)


def _names_unknown_key(item: Any, *, ours: bool) -> bool:
    fault = item.get("ctx", {}).get("error")
    return isinstance(fault, UnknownKey) and (ours or _extension(item["loc"]) is None)


def _extension(location: Location) -> Location | None:
    """Where the extension lies that holds a place, if one does."""
    for depth, part in enumerate(location, start=1):
        if isinstance(part, str) and part.startswith("x_"):
            return location[:depth]
    return None


def _removed(content: Any, location: Location) -> bool:
    """Take out what lies there, a null too; whether anything did."""
    *parents, last = location
    for part in parents:
        content = content[part]
    found = last in content
    if found:
        del content[last]
    return found
