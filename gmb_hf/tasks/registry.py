"""Tasks by name: `add_p97`, `modular_add`, `parity_8`, and those that were registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from gmb_hf.base.errors import InputError, choose, unknown
from gmb_hf.base.plugins import load_plugins
from gmb_hf.tasks.formal import LANGUAGES, FormalTask
from gmb_hf.tasks.incontext import REAL, RULES, InContextTask
from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.tasks.task import Task

DEFAULT_PRIME = 97
_MODULAR = re.compile(r"modular_(?P<operation>\w+)|(?P<named>\w+)_p(?P<prime>\d+)")
_FORMAL = re.compile(r"(?P<language>\w+)_(?P<length>\d+)")
_IN_CONTEXT = re.compile(
    rf"(?P<rule>{'|'.join((*RULES, REAL))})(_p(?P<prime>\d+))?(_k(?P<examples>\d+))?"
    r"(_n(?P<sequences>\d+))?"
)

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
    formal = [f"{name}_{language.protocol_length}" for name, language in LANGUAGES.items()]
    return (*modular, *formal, *in_context_names())


def in_context_names() -> tuple[str, ...]:
    """The names of the in-context tasks at their usual size."""
    return tuple(InContextTask(rule).name for rule in RULES)


def get_task(name: str, *, prime: int | None = None, **options: Any) -> Task:
    """The task of that name.

    Args:
        name: `OPERATION_pPRIME` (`add_p97`), `modular_OPERATION` (the prime from `prime`, 97 when
            not given), `LANGUAGE_LENGTH` (`parity_8`), `RULE_pP_kK` of rows in which K examples are
            before the question (`linear_p11_k8`; 11 and 8 when not given), or a name in `TASKS`.
        prime: the modulus, for a name that does not hold it.
        options: fields of `ModularTask` (`op_token`, `corruption_rate`, `keep_pairs_together`)
            or of `FormalTask` (`sequence_length`) or `InContextTask` (`examples`, `sequences`), or
            parameters of a registered task.

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
    modular = _MODULAR.fullmatch(name)
    if modular and (modular["operation"] or modular["named"]) in OPERATIONS:
        _check_options(name, ModularTask, options, {"operation", "prime"})
        if modular["prime"] and prime not in (None, int(modular["prime"])):
            raise InputError(f"task {name!r} names its prime, and prime={prime} is another")
        chosen = int(modular["prime"]) if modular["prime"] else prime
        operation = modular["operation"] or modular["named"]
        return ModularTask(operation, DEFAULT_PRIME if chosen is None else chosen, **options)
    formal = _FORMAL.fullmatch(name)
    if formal and formal["language"] in LANGUAGES:
        if prime is not None:
            raise InputError(f"task {name!r} is over bits and takes no prime; leave prime out")
        _check_options(name, FormalTask, options, {"language", "input_length"})
        return FormalTask(formal["language"], int(formal["length"]), **options)
    in_context = _IN_CONTEXT.fullmatch(name)
    if in_context:
        _check_options(name, InContextTask, options, {"rule"})
        said = {
            key: int(text) for key, text in in_context.groupdict().items() if text and key != "rule"
        }
        given = {**said, **options, **({} if prime is None else {"prime": prime})}
        for key, number in said.items():
            if given[key] != number:
                raise InputError(
                    f"task {name!r} names its {key}, and {key}={given[key]} is another"
                )
        return InContextTask(in_context["rule"], **given)
    if name in LANGUAGES:
        raise InputError(f"task {name!r}: say how many bits, e.g. {name}_8")
    others = other_tasks()
    if name not in others:
        known = (*task_names(), *(f"modular_{operation}" for operation in OPERATIONS), *others)
        raise unknown("task", name, known)
    if prime is not None:
        options["prime"] = prime
    _check_options(name, others[name], options)
    return others[name](**options)


def _check_options(
    name: str, make: Callable[..., Task], options: Iterable[str], in_name: Iterable[str] = ()
) -> None:
    known = [option for option in inspect.signature(make).parameters if option not in in_name]
    for option in options:
        choose("option", option, known, where=f"task {name!r}")
