"""Tasks by name: `add_p97`, `modular_add`, `parity_8`."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from gmb_hf.errors import InputError, choose, unknown
from gmb_hf.tasks.formal import LANGUAGES, FormalTask
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.task import OPERATIONS, Task

DEFAULT_PRIME = 97
_MODULAR = re.compile(r"modular_(?P<operation>\w+)|(?P<named>\w+)_p(?P<prime>\d+)")
_FORMAL = re.compile(r"(?P<language>[a-z]+)_(?P<length>\d+)")


def task_names() -> tuple[str, ...]:
    """The names of the tasks at the protocol's sizes; other primes and lengths work alike."""
    formal = ("parity_8", "copy_8", "reverse_8", "majority_9")
    return (*(f"{operation}_p{DEFAULT_PRIME}" for operation in OPERATIONS), *formal)


def get_task(name: str, *, prime: int | None = None, **options: Any) -> Task:
    """The task of that name.

    Args:
        name: `OPERATION_pPRIME` (`add_p97`), `modular_OPERATION` (the prime from `prime`, 97 when
            not given), or `LANGUAGE_LENGTH` (`parity_8`).
        prime: the modulus, for a name that does not hold it.
        options: fields of `ModularTask` (`op_token`, `corruption_rate`, `keep_pairs_together`)
            or of `FormalTask` (`sequence_length`).

    Raises:
        InputError: the name or an option is unknown (the nearest is named), or a value is bad.

    Example:
        >>> get_task("add_p97").rows().shape
        (9409, 8)
        >>> get_task("modular_sub", prime=29).name
        'sub_p29'
        >>> get_task("copy_8").answer_positions
        (9, 10, 11, 12, 13, 14, 15, 16)
    """
    modular = _MODULAR.fullmatch(name)
    if modular and (modular["operation"] or modular["named"]) in OPERATIONS:
        _check_options(name, ModularTask, ("operation", "prime"), options)
        if modular["prime"] and prime not in (None, int(modular["prime"])):
            raise InputError(f"task {name!r} names its prime, and prime={prime} is another")
        chosen = int(modular["prime"]) if modular["prime"] else prime
        operation = modular["operation"] or modular["named"]
        return ModularTask(operation, DEFAULT_PRIME if chosen is None else chosen, **options)
    formal = _FORMAL.fullmatch(name)
    if formal and formal["language"] in LANGUAGES:
        if prime is not None:
            raise InputError(f"task {name!r} is over bits and takes no prime; leave prime out")
        _check_options(name, FormalTask, ("language", "input_length"), options)
        return FormalTask(formal["language"], int(formal["length"]), **options)
    if name in LANGUAGES:
        raise InputError(f"task {name!r}: say how many bits, e.g. {name}_8")
    known = (*task_names(), *(f"modular_{operation}" for operation in OPERATIONS))
    raise unknown("task", name, known)


def _check_options(
    name: str, kind: type[Any], in_name: tuple[str, ...], options: dict[str, Any]
) -> None:
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in in_name]
    for option in options:
        choose("option", option, fields, where=f"task {name!r}")
