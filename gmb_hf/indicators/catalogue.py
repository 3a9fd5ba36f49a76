"""The catalogue of indicators: what each one is, what it needs, and how its score is computed.

An indicator is a causal function of a run log's observables. Its orientation, defaults and needs
are declared here, before any run is looked at; using them as they stand is no tuning.

    @register("embedding_norm_drop", family="dynamics", needs=("embedding_norm",), ...)
    def embedding_norm_drop(seen: Observables, *, window: int = 100) -> Values: ...

    compute(log, "embedding_norm_drop", window=200).values      # float64 [runs, checkpoints]
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from gmb_hf.base.documents import Many, Section, load_yaml
from gmb_hf.base.errors import InputError, unknown
from gmb_hf.base.escape import one_line
from gmb_hf.base.plugins import load_plugins
from gmb_hf.indicators.causal import Values
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

Family = Literal[
    "dynamics",
    "spectral",
    "process",
    "hierarchical_convergence",
    "crucible",
    "judge",
    "external",
    "ensemble",
    "control",
    "oracle",
]
FAMILIES: tuple[str, ...] = get_args(Family)
Kind = Literal["label-free", "label-using", "task-aware"]
KINDS: tuple[str, ...] = get_args(Kind)

LABEL_USING = frozenset(
    (
        *("test_acc", "test_loss", "test_margin_q10", "test_margin_q50", "test_margin_q90"),
        *("test_class_distance", "restricted_loss", "excluded_loss"),
        *("correction_rate", "crucible_margin_q10"),
    )
)
"""Columns of a run log that are made with held-out labels; those of others are known by name."""
TASK_AWARE = frozenset(
    (
        *("embedding_gini", "unembedding_gini", "embedding_balance", "embedding_density"),
        *("embedding_participation", "embedding_top8"),
        *("frequency_rank", "frequency_synchronisation", "agop_circulant_deviation"),
        *("swap_agreement", "swap_divergence", "prefix_matching", "previous_token"),
    )
)
"""Columns that know the operation, or the basis in which the task is solved."""
HELD_OUT_INPUTS = frozenset(
    (
        *("participation_ratio", "disagreement", "prediction_change", "input_sensitivity"),
        *("head_tail_contrast", "distance_outliers", "swap_agreement", "swap_divergence"),
    )
)
"""Columns that take the inputs of held-out rows, without their labels."""
DEAR = frozenset(
    (
        *("commutator_defect", "gradient_variance", "gradient_noise_scale"),
        *("hessian_top", "hessian_trace", "learning_coefficient", "fiedler_value"),
        *("dropout_variance", "dropout_accuracy", "local_complexity"),
        *("kernel_alignment", "kernel_distance", "kernel_speed"),
    )
)
"""Columns that cost one gradient of the training rows, or more, at each checkpoint."""
OF_THE_OUTPUT = (
    *("test_acc", "test_loss", "test_margin_q10", "test_margin_q50", "test_margin_q90"),
)
"""Columns that are made of the held-out logits and their labels, as held-out accuracy is."""
_HELD_OUT_NAME = re.compile(
    r"(test|eval|val|valid|validation|held_?out)[_/.-](?:.*[_/.-])?"
    r"(loss|acc|accuracy|error|f1|perplexity|margin.*)",
    re.IGNORECASE,
)


def kind_of_columns(columns: Iterable[str]) -> Kind:
    """What a score is told that reads these columns, whatever its author says of it."""
    names = list(columns)
    if any(name in LABEL_USING or _HELD_OUT_NAME.fullmatch(name) for name in names):
        return "label-using"
    return "task-aware" if TASK_AWARE.intersection(names) else "label-free"


class Observables:
    """What an indicator sees: columns as arrays, float64 [R, T], and windows in checkpoints.

    The column "step" gives the steps. `cadence` is the steps between checkpoints, or how to find
    out, which is asked where it is needed. `known`: scores that are computed already, by their
    `score_key`.
    """

    def __init__(
        self,
        columns: Callable[[str], Values],
        cadence: int | Callable[[], int],
        known: Mapping[tuple[Any, ...], Values] = MappingProxyType({}),
    ) -> None:
        self._columns = columns
        self._cadence = cadence
        self.known = known

    def __getitem__(self, column: str) -> Values:
        return self._columns(column)

    def only(self, indicator: Indicator) -> Observables:
        """The columns that an indicator says it needs; it gets no others.

        Asked for another one, they raise `InputError`. What it writes into them nobody else sees.
        """

        def column(name: str) -> Values:
            if name not in indicator.needs:
                raise InputError(
                    f"reads column {name!r}, which is not among its needs "
                    f"({', '.join(indicator.needs)}); add it there, so that all can see what the "
                    "score is made of",
                    code="undeclared_column",
                    column=name,
                )
            return self._columns(name).copy()

        return Observables(column, self._cadence)

    @cached_property
    def cadence(self) -> int:
        """Steps between checkpoints."""
        return self._cadence if isinstance(self._cadence, int) else self._cadence()

    def checkpoints(self, window: int, *, at_least: int = 1, name: str = "window") -> int:
        """How many checkpoints `window` steps are.

        Raises:
            InputError: not a positive multiple of the cadence, or fewer than `at_least`.
        """
        cadence = self.cadence
        fault = None
        if window < 1 or window % cadence:
            what = f"but checkpoints are {cadence} steps apart"
            fault = f"{what}; choose a positive multiple of {cadence}"
        elif window < at_least * cadence:
            least = f"{at_least} checkpoints, {at_least * cadence} steps"
            fault = f"{window // cadence} checkpoints; it needs at least {least}"
        if fault:
            message = f"{name} is {window} steps, {fault}"
            raise InputError(message, code="bad_window", name=name)
        return window // cadence


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """One entry of the catalogue, under a name that is unique.

    Attributes:
        family: one of `FAMILIES`.
        needs: the observables that it reads.
        function: `function(observables, **parameters)` -> values [R, T].
        source: paper or specification.
        sees_test_labels: True makes it an oracle, no monitor; None: its owner has not said.
        orientation: +1 or -1; the score is the function's value times this, so that higher means
            higher risk.
        parameters: name -> default. Those whose name ends in "window" are in steps.
        minimum_checkpoints: window -> the fewest checkpoints with which it means anything.
        window_parameter: the parameter that the robustness layer varies, or None.
        kind: what the score is told beside the run, one of `KINDS`; scores of different kinds are
            never ranked together. "label-using" sees held-out labels; "task-aware" sees none, but
            knows the operation or the Fourier basis of the task.
        rule: whether the values are 0 and 1, the alarms of a rule that its paper fixed, to be
            judged as it stands.
        published: whether it is a signal of the survey (docs/signals.md), which a design has as a
            candidate where the training recorded what such signals need.
        package: which package registered it; "" for what was never registered.
    """

    name: str
    family: str
    summary: str
    needs: tuple[str, ...]
    function: Callable[..., Values] = field(repr=False, compare=False)
    source: str
    sees_test_labels: bool | None = False
    orientation: int = 1
    parameters: Mapping[str, float | int] = field(default_factory=dict)
    minimum_checkpoints: Mapping[str, int] = field(default_factory=dict)
    window_parameter: str | None = None
    kind: Kind = "label-free"
    rule: bool = False
    published: bool = False
    package: str = ""

    def __post_init__(self) -> None:
        where = f"indicator {self.name!r}"
        if self.sees_test_labels:
            object.__setattr__(self, "kind", "label-using")
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS, where=where)
        if self.kind == "label-using" and self.sees_test_labels is False:
            message = f"{where}: is label-using, so that sees_test_labels must be True"
            raise InputError(message, code="bad_value", name=self.name)
        if self.family not in FAMILIES:
            raise unknown("family", self.family, FAMILIES, where=where)
        if self.orientation not in (1, -1):
            message = f"{where}: orientation must be 1 or -1, got {self.orientation!r}"
            raise InputError(message, code="bad_value", name=self.name)
        window = self.window_parameter
        if window is not None and window not in self.parameters:
            raise unknown("window parameter", window, self.parameters, where=where)

    @property
    def needs_held_out_inputs(self) -> bool:
        """Whether it takes held-out rows, be it without their labels."""
        return self.kind == "label-using" or not HELD_OUT_INPUTS.isdisjoint(self.needs)

    @property
    def windows(self) -> tuple[str, ...]:
        """The parameters that are windows, in steps."""
        return tuple(name for name in self.parameters if name.endswith("window"))

    def defaults_for(self, cadence: int) -> dict[str, float | int]:
        """The defaults, each window that does not fit the cadence raised to the next that does."""
        fitted = dict(self.parameters)
        for name in self.windows:
            count = math.ceil(fitted[name] / cadence)
            fitted[name] = cadence * max(count, self.minimum_checkpoints.get(name, 1))
        return fitted

    def with_defaults(self, parameters: Mapping[str, Any]) -> dict[str, float | int]:
        """All parameters, the given ones over the defaults, each of its default's type.

        Raises:
            InputError: an unknown parameter (the nearest is named), or not a number of its type.
        """
        where = f"indicator {self.name!r}"
        merged = dict(self.parameters)
        for name, value in parameters.items():
            if name not in merged:
                raise unknown("parameter", name, merged, where=where)
            merged[name] = _number(value, type(merged[name]), f"{where}: parameter {name!r}")
        return merged


_REGISTRY: dict[str, Indicator] = {}
_OWN: dict[str, Indicator] = {}  # those that this package registers; filled when it has done so


def register(
    name: str,
    *,
    family: Family,
    summary: str,
    needs: tuple[str, ...],
    source: str,
    orientation: int = 1,
    sees_test_labels: bool = False,
    minimum_checkpoints: Mapping[str, int] | None = None,
    window_parameter: str | None = None,
    kind: Kind = "label-free",
    rule: bool = False,
    published: bool = False,
    package: str | None = None,
) -> Callable[[Callable[..., Values]], Callable[..., Values]]:
    """Enter the decorated function in the catalogue; the arguments are the fields of `Indicator`.

    Its keyword-only arguments are the parameters, their defaults the declared ones. The package is
    that of the caller. An indicator that reads a column made with held-out labels sees them, and
    one that reads a column of the task's basis is task-aware, whatever is said here.

    Raises:
        InputError: the name is taken, or the declaration is inconsistent.
    """

    owner = _package_of_caller() if package is None else package

    def enter(function: Callable[..., Values]) -> Callable[..., Values]:
        parameters = {
            key: parameter.default
            for key, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        _enter(
            Indicator(
                name=name,
                family=family,
                summary=summary,
                needs=needs,
                function=function,
                source=source,
                sees_test_labels=sees_test_labels,
                orientation=orientation,
                parameters=MappingProxyType(parameters),
                minimum_checkpoints=MappingProxyType(dict(minimum_checkpoints or {})),
                window_parameter=window_parameter,
                kind=kind,
                rule=rule,
                published=published,
                package=owner,
            )
        )
        return function

    return enter


def _enter(indicator: Indicator) -> None:
    name = indicator.name
    if name in _REGISTRY:
        message = f"indicator {name!r} is registered already; choose another name"
        raise InputError(message, code="repeated_name", name=name)
    if isinstance(indicator.needs, str) or not indicator.needs:
        message = f"indicator {name!r}: needs must be a tuple of columns, ('step',) at least"
        raise InputError(f"{message}, got {indicator.needs!r}", code="bad_value", name=name)
    # What a score is told follows from what it reads; its author may only say more.
    read = kind_of_columns(indicator.needs)
    if read == "label-using":
        indicator = replace(indicator, kind=read, sees_test_labels=True)
    elif read == "task-aware" and indicator.kind == "label-free":
        indicator = replace(indicator, kind=read)
    _REGISTRY[name] = indicator


def _package_of_caller() -> str:
    """Of whoever called the function that asks, the package that its module is in."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame else ""


def register_column(
    name: str,
    summary: str,
    source: str,
    *,
    column: str | tuple[str, ...] = (),
    formula: Callable[..., Values] = lambda values: values,
    trailing: Callable[..., Values] | None = None,
    parameters: Mapping[str, float | int] | None = None,
    low: bool = False,
    **declared: Any,
) -> None:
    """Enter an indicator that is a column of the run log as it stands, or a formula of columns.

    Args:
        name, summary, source: as `register` takes them.
        column: one or several of the run log; by default that of the indicator's name.
        formula: of the columns' values, float64 [R, T] each.
        trailing: in its place, a formula of the values and of a window in checkpoints.
        parameters: name -> default. The formula is given those whose name ends in "window" after
            the values, in checkpoints, and the others by their names.
        low: low values mean risk, which turns the orientation and ends the summary.
        **declared: family and what else `register` takes.
    """
    needs = (column,) if isinstance(column, str) else column or (name,)
    defaults = dict(parameters or {})
    if low:
        summary, declared["orientation"] = f"{summary}, low meaning risk", -1
    if trailing is not None:
        formula, defaults = trailing, {"window": 100, **defaults}
        declared["window_parameter"] = "window"

    def function(seen: Observables, **given: Any) -> Values:
        windows = [
            seen.checkpoints(given.pop(key), name=key) for key in defaults if key.endswith("window")
        ]
        return formula(*map(seen.__getitem__, needs), *windows, **given)

    declared.setdefault("package", _package_of_caller())
    _enter(
        Indicator(
            name=name,
            summary=summary,
            source=source,
            needs=needs,
            function=function,
            parameters=MappingProxyType(defaults),
            **declared,
        )
    )


class Declaration(Section):
    """One indicator, in the words of `register_column`.

    Attributes:
        column: one or several of the run log; by default that of the indicator's name.
        formula: the name of a function of the columns; None: the column as it stands.
        trailing: in its place, of one that is told a window too, in checkpoints, which the
            robustness layer varies.
        parameters: further ones, and a window other than 100 steps. Those whose name ends in
            "window" are in steps.
        low: low values mean risk, which the summary then says.
    """

    name: str
    summary: str
    source: str
    family: Family
    column: str | Many[str] = ()
    formula: str | None = None
    trailing: str | None = None
    parameters: dict[str, int | float] = Field(default_factory=dict)
    minimum_checkpoints: dict[str, int] = Field(default_factory=dict)
    orientation: int = 1
    low: bool = False
    kind: Kind = "label-free"
    sees_test_labels: bool = False
    rule: bool = False


class _Declarations(Section):
    indicators: Many[Declaration]


def register_declared(path: Path, formulas: Iterable[Callable[..., Values]], **shared: Any) -> None:
    """Enter the indicators of a file in the catalogue.

    Args:
        path: a YAML list of declarations.
        formulas: what they may name.
        **shared: what `register_column` takes, of all of them.

    Raises:
        InputError: it is no such file (the path of a wrong field is named), a formula is unknown
            (the nearest is named), or a name is taken.
    """
    known = {formula.__name__: formula for formula in formulas}
    for one in _Declarations.parse({"indicators": load_yaml(path)}, where=str(path)).indicators:
        given = one.model_dump(exclude_unset=True)
        for key in {"formula", "trailing"}.intersection(given):
            if given[key] not in known:
                raise unknown("formula", given[key], known, where=f"{path}: {one.name}")
            given[key] = known[given[key]]
        register_column(**given, **shared)


def names() -> tuple[str, ...]:
    """Every indicator's name, by family and within it in order of registration."""
    _load()
    return tuple(sorted(_REGISTRY, key=lambda name: FAMILIES.index(_REGISTRY[name].family)))


def available(log: RunLog) -> tuple[str, ...]:
    """The names of the indicators whose observables every run of `log` has."""
    held = {"step", *log.shared_observables}
    return tuple(name for name in names() if held.issuperset(_REGISTRY[name].needs))


def get(name: str) -> Indicator:
    """The indicator of this name.

    Raises:
        InputError: unknown; the nearest name is given.
    """
    _load()
    if name not in _REGISTRY:
        raise unknown("indicator", name, _REGISTRY)
    return _REGISTRY[name]


@contextmanager
def standing_in(indicators: Iterable[Indicator], *, own: bool = True) -> Iterator[None]:
    """Meanwhile these indicators stand under their names, whatever was registered there.

    `own`: they are made by this package, and trusted.
    """
    _load()
    before, trusted = dict(_REGISTRY), dict(_OWN)
    found = {entry.name: entry for entry in indicators}
    _REGISTRY.update(found)
    if own:
        _OWN.update(found)
    try:
        yield
    finally:
        _REGISTRY.clear()
        _REGISTRY.update(before)
        _OWN.clear()
        _OWN.update(trusted)


def compute(
    log: RunLog,
    indicator: str | Indicator,
    *,
    sign: int | None = None,
    cadence: int | None = None,
    **parameters: Any,
) -> Panel:
    """The score of an indicator on every checkpoint of every run, higher meaning higher risk.

    Args:
        indicator: a name, or an `Indicator` such as `external` makes.
        sign: +1 or None for the declared orientation, -1 for its opposite.
        cadence: steps between checkpoints, for a run too young to show it; None reads the log's.
        **parameters: over the declared defaults.

    Returns:
        A panel named like the indicator, finite wherever its observables are.

    Raises:
        InputError: an unknown name or parameter, a missing observable, or a window that does not
            fit the cadence.
    """
    entry = get(indicator) if isinstance(indicator, str) else indicator
    grid = log.panel("step")
    seen = Observables(lambda column: log.panel(column).values, cadence or grid.cadence)
    return grid.with_values(scored(entry, seen, parameters, sign=sign), name=entry.name)


def score_key(entry: Indicator, parameters: Mapping[str, Any], sign: int | None) -> tuple[Any, ...]:
    """Equal of scores that are the same numbers on the same runs."""
    return (entry.name, -1 if sign == -1 else 1, *sorted(entry.with_defaults(parameters).items()))


def scored(
    entry: Indicator, seen: Observables, parameters: Mapping[str, Any], *, sign: int | None = None
) -> Values:
    """The score of an indicator on the observables that it is given, float64 [R, T].

    Raises:
        InputError: as `compute`.
    """
    if sign not in (None, 1, -1):
        message = f"indicator {entry.name!r}: sign must be 1 or -1, got {sign!r}"
        raise InputError(message, code="bad_value", name=entry.name)
    settings = entry.with_defaults(parameters)
    if seen.known and (known := seen.known.get(score_key(entry, settings, sign))) is not None:
        return known
    try:
        for name in entry.windows:
            least = entry.minimum_checkpoints.get(name, 1)
            seen.checkpoints(int(settings[name]), at_least=least, name=name)
        values = _values_of(entry, seen, settings)
    except InputError as error:
        raise error.reworded(f"indicator {entry.name!r}: {error}") from error
    oriented = values * float(entry.orientation * (1 if sign is None else sign))
    return np.asarray(oriented)


def _values_of(entry: Indicator, seen: Observables, settings: Mapping[str, float | int]) -> Values:
    """What the function of an indicator returns; that of another package is not trusted.

    Raises:
        InputError: it fails, or returns no number for each row of its columns.
    """
    if not is_foreign(entry):
        return entry.function(seen, **settings)
    try:
        found = np.asarray(entry.function(seen.only(entry), **settings))
        values = found.astype(np.float64, casting="same_kind")
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # of another package: any kind
        of = f" of {entry.package}" if entry.package else ""
        raise InputError(
            f"the function{of} failed: {one_line(f'{type(error).__name__}: {error}')}; repair it, "
            "or leave the indicator out",
            code="indicator_failed",
        ) from error
    name, shape = entry.needs[0], seen[entry.needs[0]].shape
    if values.shape != shape:
        raise InputError(
            f"returned values of shape {list(values.shape)} for columns of shape {list(shape)} "
            f"({name}): one value for each run and checkpoint is needed",
            code="bad_shape",
        )
    return values


def is_foreign(entry: Indicator) -> bool:
    """Whether an indicator was registered by anybody but this package.

    What was never registered, a column or an ensemble, is made here.
    """
    _load()
    registered = _REGISTRY.get(entry.name)
    known = registered is not None and registered.function is entry.function
    return known and _OWN.get(entry.name) is not registered


@cache
def _load() -> None:
    before = set(_REGISTRY)
    for module in (".formulas", ".published"):
        importlib.import_module(module, __package__)
    _OWN.update({name: entry for name, entry in _REGISTRY.items() if name not in before})
    # Importing a module registers its indicators, also that of another package.
    load_plugins("gmb_hf.indicators", lambda name, module: None)


def _number(value: Any, kind: type, what: str) -> float | int:
    """`value` as a number of `kind`; YAML hands over 1e-3 as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not np.isfinite(number):
        raise InputError(f"{what} must be a number, got {value!r}", code="bad_value")
    if kind is not int:
        return number
    if number != int(number):
        raise InputError(f"{what} must be a whole number, got {value!r}", code="bad_value")
    return int(number)
