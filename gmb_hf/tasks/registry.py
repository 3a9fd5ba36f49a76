"""Tasks by name: `add_p97`, `modular_add`, `dihedral_15`, `parity_8`, and registered ones."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

from gmb_hf.base.errors import InputError, choose, unknown
from gmb_hf.base.plugins import load_plugins
from gmb_hf.tasks.formal import LANGUAGES, FormalTask
from gmb_hf.tasks.groups import GROUPS, GroupTask
from gmb_hf.tasks.incontext import REAL, RULES, InContextTask
from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.tasks.task import Task

DEFAULT_PRIME = 97
# A name's pattern, whose groups are fields -> the task, and what the first group may be.
_FAMILIES: dict[str, tuple[Callable[..., Task], Collection[str]]] = {
    r"modular_(?P<operation>\w+)": (ModularTask, OPERATIONS),
    r"(?P<operation>\w+)_p(?P<prime>\d+)": (ModularTask, OPERATIONS),
    r"(?P<group>\w+)_(?P<degree>\d+)": (GroupTask, GROUPS),
    r"(?P<language>\w+)_(?P<input_length>\d+)": (FormalTask, LANGUAGES),
    r"(?P<rule>\w+?)(_p(?P<prime>\d+))?(_k(?P<examples>\d+))?(_n(?P<sequences>\d+))?": (
        InContextTask,
        (*RULES, REAL),
    ),
}
# The fields that are no options beside a name.
_NAMED: dict[Callable[..., Task], tuple[str, ...]] = {
    ModularTask: ("operation", "prime"),
    GroupTask: ("group", "degree"),
    FormalTask: ("language", "input_length"),
    InContextTask: ("rule",),
}

TASKS: dict[str, Callable[..., Task]] = {}
"""Every other task: name -> what makes it, a function or class; its parameters are the options."""


@cache
def other_tasks() -> dict[str, Callable[..., Task]]:
    """`TASKS`, those of other packages included."""

    def enter(name: str, make: Any) -> None:
        if not callable(make):
            raise InputError(f"it makes no task: it is a {type(make).__name__}")
        if name in TASKS:
            raise InputError(f"task {name!r} is registered already; choose another name")
        TASKS[name] = make

    load_plugins("gmb_hf.tasks", enter)
    return TASKS


def task_names() -> tuple[str, ...]:
    """The names of the tasks at the protocol's sizes; other primes and lengths work alike."""
    modular = [f"{operation}_p{DEFAULT_PRIME}" for operation in OPERATIONS]
    groups = [f"{name}_{group.usual}" for name, group in GROUPS.items()]
    formal = [f"{name}_{language.protocol_length}" for name, language in LANGUAGES.items()]
    return (*modular, *groups, *formal, *in_context_names())


def in_context_names() -> tuple[str, ...]:
    """The names of the in-context tasks at their usual size."""
    return tuple(InContextTask(rule).name for rule in RULES)


def get_task(name: str, *, prime: int | None = None, **options: Any) -> Task:
    """The task of that name.

    Args:
        name: `OPERATION_pPRIME` (`add_p97`), `modular_OPERATION` (the prime from `prime`, 97 when
            not given), `GROUP_DEGREE` (`dihedral_15`), `LANGUAGE_LENGTH` (`parity_8`), `RULE_pP_kK`
            of rows in which K examples are before the question (`linear_p11_k8`; 11 and 8 when not
            given), or a name in `TASKS`.
        prime: the modulus, for a name that does not hold it.
        options: fields of `ModularTask` (`op_token`, `corruption_rate`, `keep_pairs_together`)
            or of `GroupTask` (`keep_pairs_together`), `FormalTask` (`sequence_length`) or
            `InContextTask` (`examples`, `sequences`), or parameters of a registered task.

    Raises:
        InputError: the name or an option is unknown (the nearest is named), or a value is bad.

    Examples:
        >>> get_task("add_p97").rows().shape
        (9409, 8)
        >>> get_task("modular_sub", prime=29).name
        'sub_p29'
        >>> get_task("copy_8").answer_positions
        (9, 10, 11, 12, 13, 14, 15, 16)
    """
    for pattern, (make, members) in _FAMILIES.items():
        found = re.fullmatch(pattern, name)
        if not found or found[1] not in members:
            continue
        if prime is not None and make in (FormalTask, GroupTask):
            what = "over bits" if make is FormalTask else "a group"
            raise InputError(f"task {name!r} is {what} and takes no prime; leave prime out")
        _check_options(name, make, options)
        (_, member), *numbers = found.groupdict().items()
        said = {field: int(text) for field, text in numbers if text}
        given = {**said, **options, **({} if prime is None else {"prime": prime})}
        for field, number in said.items():
            if given[field] != number:
                what = f"names its {field}, and {field}={given[field]} is another"
                raise InputError(f"task {name!r} {what}")
        return make(member, **given)
    if name in LANGUAGES:
        raise InputError(f"task {name!r}: say how many bits, e.g. {name}_8")
    if name in GROUPS:
        raise InputError(f"task {name!r}: say which degree, e.g. {name}_{GROUPS[name].usual}")
    others = other_tasks()
    if name not in others:
        known = (*task_names(), *(f"modular_{operation}" for operation in OPERATIONS), *others)
        raise unknown("task", name, known)
    if prime is not None:
        options["prime"] = prime
    _check_options(name, others[name], options)
    return others[name](**options)


def _check_options(name: str, make: Callable[..., Task], options: Iterable[str]) -> None:
    named = _NAMED.get(make, ())
    known = [option for option in inspect.signature(make).parameters if option not in named]
    for option in options:
        choose("option", option, known, where=f"task {name!r}")
