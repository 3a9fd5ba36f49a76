"""results.yaml: assembled from the layers, written atomically, read back and checked.

The same input gives the same bytes. `Results.json_schema()` is shipped as
`results_schema_v0.4.json` for readers in other languages.
"""

from __future__ import annotations

import copy
import csv
import datetime
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from gmb_hf._version import __version__
from gmb_hf.benchmark.judge import IndicatorVerdictParts
from gmb_hf.benchmark.utility import OperatingPoint
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.documents import (
    Many,
    Section,
    canonical_hash,
    faults,
    json_like,
    load_document,
    path_text,
    section_in,
    write_yaml,
)
from gmb_hf.errors import InputError, nearest, repeated

Number = FiniteFloat | None
Count = Annotated[int, Field(ge=0)]
Label = Literal[
    "SUPPORTED_FOR_ALARM", "RANK_ONLY", "ESTIMATOR_UNSTABLE", "INCONCLUSIVE", "SCOPE_LIMITED"
]


def _open_to_extensions(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    schema["patternProperties"] = {"^x_": {}}


class ResultSection(Section):
    """A mapping of the results file: known keys are typed, others must begin with `x_`."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_open_to_extensions)

    @model_validator(mode="before")
    @classmethod
    def _only_extensions(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for key in data:
            if key not in cls.model_fields and not str(key).startswith("x_"):
                guess = nearest(str(key), cls.model_fields)
                hint = (
                    f"did you mean {guess}?"
                    if guess
                    else "known: "
                    + ", ".join(name for name in cls.model_fields if not name.startswith("x_"))
                )
                raise ValueError(f"{key} is unknown; {hint} (extensions begin with x_)")
        return data


class IntervalRecord(ResultSection):
    """An interval around a measured number."""

    low: Number
    high: Number
    level: Number = 0.95
    method: str = ""


class NullRecord(ResultSection):
    """What chance reaches at an equal false-alarm cost."""

    mean_coverage: Number
    p_value: Number
    fpr: Number = None
    draws: Count | None = None


class LayerARecord(ResultSection):
    """Ranking only; it never implies that a score may raise an alarm."""

    auc: Number
    ap: Number
    x_auc_run_mean: Number = None
    x_auc_run_sd: Number = None
    x_ap_run_mean: Number = None
    x_ap_run_sd: Number = None
    x_n_runs: Count | None = None


class AchievedRecord(ResultSection):
    """One target false positive rate and what was measured at its threshold."""

    target: FiniteFloat
    achieved: Number
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None
    x_answer: Literal["THRESHOLD", "ABSTAIN"] | None = None
    x_achieved_pooled: Number = None
    x_interval: IntervalRecord | None = None
    x_alarming_runs: Count | None = None
    x_budget_used: Number = None
    x_effective_budget: Number = None
    x_met: bool | None = None
    x_state: Literal["met", "missed", "straddles"] | None = None
    x_few_runs: bool | None = None


class FloorRecord(ResultSection):
    """Why a target cannot be reached: the smallest rate that any alarm costs."""

    f_min_pos: Number
    gaps: dict[str, Number] = Field(default_factory=dict)
    tied_value: Number = None
    tied_windows: Count | None = None


class LayerBRecord(ResultSection):
    """The operationality gate."""

    targets: Many[FiniteFloat]
    achieved: Many[AchievedRecord]
    ok_targets: Count | None
    fpr_min: Number
    controllability_pass: bool | None
    fpr_floor_detected: bool | None
    x_passed: bool | None = None
    x_floor_certificate: FloorRecord | None = None
    x_calibration: str | None = None
    x_n_runs: Count | None = None
    x_n_windows: Count | None = None
    x_dropped_windows: Count | None = None


class OperatingPointRecord(ResultSection):
    """What an alarm at one target rate is worth; times in steps."""

    fpr: FiniteFloat
    coverage: Number
    lead_time_median: Number
    lead_time_iqr: Number
    lead_time_success: Number
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None
    x_coverage_interval: IntervalRecord | None = None
    x_n_events: Count | None = None
    x_n_covered: Count | None = None
    x_n_too_early: Count | None = None
    x_lead_time_q05: Number = None
    x_lead_time_q95: Number = None
    x_lead_time_interval: IntervalRecord | None = None
    x_lead_time_intervals: dict[str, IntervalRecord] = Field(default_factory=dict)
    x_lead_time_success_interval: IntervalRecord | None = None
    x_lead_times: Many[FiniteFloat] = ()
    x_n_censored: Count | None = None
    x_false_alarms_per_run: Number = None
    x_false_alarms_per_10k_steps: Number = None
    x_time_in_warning: Number = None
    x_episodes: Count | None = None
    x_episode_precision: Number = None
    x_episodes_between: Count | None = None
    x_shift_null: NullRecord | None = None
    x_risk_set_null: NullRecord | None = None
    x_p_value: Number = None

    @property
    def by_chance(self) -> float | None:
        """The coverage that the harder of the two nulls gives; None where there is none."""
        nulls = (self.x_shift_null, self.x_risk_set_null)
        known = [null.mean_coverage for null in nulls if null is not None]
        return max((value for value in known if value is not None), default=None)


class LayerCRecord(ResultSection):
    """Utility at the operating points."""

    at_fpr: Many[OperatingPointRecord]


class MemberRecord(ResultSection):
    """One member of the robustness family and the label that it gets."""

    name: str
    label: Label
    layer_b_pass: bool | None = None


class LayerDRecord(ResultSection):
    """Robustness over the preregistered family."""

    family_size: Count | None
    pass_rate: Number
    label_flip_rate: Number
    sensitivity_notes: str = ""
    x_central_label: Label | None = None
    x_members: Many[MemberRecord] = ()


class DiagnosticsRecord(ResultSection):
    """How much resolution and information the score has where it matters."""

    effective_support_size: Number = None
    tie_dominance: Number = None
    comments: str = ""
    x_tail_support_size: Number = None
    x_n_eff: Number = None
    x_design_effect: Number = None
    x_abstain_rate: Number = None
    x_achievable: Many[Many[FiniteFloat]] = ()


# The results file as models: schema v0.4, with this package's extensions under `x_` keys.


class ScopeRecord(ResultSection):
    """The stratum that a `SCOPE_LIMITED` label is bound to."""

    name: str
    where: str


class StratumRecord(ResultSection):
    """What came out in one stratum, at the primary operating point."""

    name: str
    where: str
    n_runs: Count
    n_events: Count
    passed: bool
    reasons: Many[str] = ()
    sentence: str = ""
    ok_targets: Count | None = None
    achieved: Number = None
    interval: IntervalRecord | None = None
    coverage: Number = None
    coverage_interval: IntervalRecord | None = None
    chance: Number = None
    lead_time_median: Number = None
    p_value: Number = None
    p_adjusted: Number = None
    label_flip_rate: Number = None


class IndicatorRecord(ResultSection):
    """One score, its four layers and its one label."""

    name: str
    family: str | None
    layer_A: LayerARecord
    layer_B: LayerBRecord
    layer_C: LayerCRecord
    layer_D: LayerDRecord
    label: Label
    diagnostics: DiagnosticsRecord = DiagnosticsRecord()
    x_sign: Literal[1, -1] | None = None
    x_sees_test_labels: bool | None = None
    x_alarm_eligible: bool | None = None
    x_reasons: Many[str] = ()
    x_sentence: str = ""
    x_p_adjusted: Number = None
    x_runs_to_settle: Count | None = None
    x_scope: ScopeRecord | None = None
    x_strata: Many[StratumRecord] = ()
    x_null_reasons: dict[str, str] = Field(default_factory=dict)

    def point(self, fpr: float) -> OperatingPointRecord | None:
        """The operating point at one target rate, or None."""
        return next((point for point in self.layer_C.at_fpr if point.fpr == fpr), None)

    def achieved(self, target: float) -> AchievedRecord | None:
        """What was measured at one target rate, or None."""
        return next((item for item in self.layer_B.achieved if item.target == target), None)


class MetaRecord(ResultSection):
    """Which evaluation this is."""

    benchmark: Literal["GMB"] = "GMB"
    run_id: str
    date: str
    commit_hash: str | None = None
    prereg_path: str | None = None


class BoundaryRecord(ResultSection):
    """The system that the verdict speaks about."""

    task: str | None
    model: str | None
    seeds_eval: Many[int | str] = ()


class EventRecord(ResultSection):
    """The event, and t* of each run in steps (null: none was registered)."""

    type: Literal["E_jump", "E_plateau", "E_regime"]
    t_event_by_seed: dict[str, int | FiniteFloat | None] = Field(default_factory=dict)
    x_without_event: dict[str, str] = Field(default_factory=dict)
    x_excluded: dict[str, str] = Field(default_factory=dict)


class SummaryRecord(ResultSection):
    """How much there was to judge by."""

    n_seeds: Count
    n_events: Count | None
    notes: str = ""
    x_notes: Many[str] = ()
    x_event_count_min: Count | None = None
    x_n_too_early: Count | None = None
    x_n_excluded: Count | None = None
    x_look: Count | None = None
    x_looks: Count | None = None


class TablesRecord(ResultSection):
    """Where the tables of section 8 lie, relative to the results file."""

    gate_summary_path: str | None = None
    utility_at_fpr_path: str | None = None
    robustness_path: str | None = None


class CalibrationRecord(ResultSection):
    """Where the thresholds come from and what their budgets are worth."""

    method: Literal["locked", "explore", "cross_run", "in_sample", "given"]
    n_runs: Count | None = None
    effective_budget: dict[str, Number] = Field(default_factory=dict)


class SourceRecord(ResultSection):
    """A dataset of the Hub at one commit: the runs that were judged, or what they learned."""

    what: Literal["runs", "data"]
    repo: str
    revision: str
    config: str
    fingerprint: str


class ProvenanceRecord(ResultSection):
    """What would have to be the same for the same numbers to come out."""

    package_version: str
    python: str
    packages: dict[str, str] = Field(default_factory=dict)
    prereg_hash: str | None = None
    lock_hash: str | None = None
    explore_fingerprint: str | None = None
    evaluation_fingerprint: str | None = None
    seed_of_draws: int | None = None


# Every fault of a document at once, and other people's extensions set aside.


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


_HEADING = "GMB results, schema v0.4; keys that begin with x_ are extensions of gmb-hf"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers")

TABLES = {
    "gate_summary_path": "tables/gate_summary.csv",
    "utility_at_fpr_path": "tables/utility_at_fpr.csv",
    "robustness_path": "tables/robustness.csv",
}


class Results(ResultSection):
    """One evaluation: every indicator, every failure, and how the numbers came about."""

    schema_version: Literal["v0.4"] = "v0.4"
    meta: MetaRecord
    boundary: BoundaryRecord
    event: EventRecord
    summary: SummaryRecord
    indicators: Many[IndicatorRecord]
    tables: TablesRecord = TablesRecord()
    x_protocol: Literal["strict", "v0.4", "compat"] | None = None
    x_prereg: dict[str, Any] | None = Field(None, description="the preregistration, in full")
    x_calibration: CalibrationRecord | None = None
    x_provenance: ProvenanceRecord | None = None
    x_sources: Many[SourceRecord] = Field((), description="what was pulled from the Hub")

    @model_validator(mode="after")
    def _each_name_once(self) -> Results:
        twice = repeated(item.name for item in self.indicators)
        if twice is not None:
            raise ValueError(f"indicators: the name {twice!r} is used twice")
        return self

    @model_validator(mode="after")
    def _only_what_holds_may_alarm(self) -> Results:
        for place, item in enumerate(self.indicators):
            if item.label != "SUPPORTED_FOR_ALARM" and item.x_alarm_eligible:
                raise ValueError(
                    f"indicators[{place}].x_alarm_eligible is true, the label is {item.label}"
                )
            if item.label == "SUPPORTED_FOR_ALARM" and self.x_protocol == "compat":
                raise ValueError(
                    f"indicators[{place}].label is {item.label}, which x_protocol compat cannot "
                    "support: its thresholds are found on the windows that they are judged by"
                )
        return self

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a results file, ours or anybody's.

        Raises:
            InputError: it does not match the schema; the path of each fault is named.
        """
        data = load_document(path)
        found = data.get("schema_version") if isinstance(data, dict) else None
        if found != "v0.4":
            raise InputError(f"{path}: schema_version is {found!r}, this version reads 'v0.4' only")
        checked = cls.check(data)
        if checked.faults:
            more = f" (and {len(checked.faults) - 3} more)" if len(checked.faults) > 3 else ""
            raise InputError(f"{path}: {'; '.join(checked.faults[:3])}{more}")
        return cls.parse(checked.content, where=str(path))

    @classmethod
    def check(cls, data: Any) -> Checked:
        """Hold plain data against the schema: every fault, and what of others is no part of it."""
        source = data.get("x_provenance") if isinstance(data, dict) else None
        ours = isinstance(source, dict) and "package_version" in source
        return check(cls, data, ours=ours)

    def pulled_from(self, sources: Iterable[Mapping[str, str]]) -> Self:
        """The same results with what was pulled from the Hub for them, as `SourceRecord` has it."""
        records = tuple(SourceRecord.parse(source, where="results") for source in sources)
        return self.model_copy(update={"x_sources": records})

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically; equal results give equal bytes."""
        return write_yaml(path, self.plain(), heading=_HEADING)

    def plain(self) -> dict[str, Any]:
        """The whole file as plain data; nulls stay, since they say that a number is missing."""
        plain: dict[str, Any] = json_like(self.model_dump(mode="python"))
        return plain

    @property
    def prereg(self) -> Design | None:
        """The preregistration that is stored with the results, if one is."""
        if self.x_prereg is None:
            return None
        return Design.parse(self.x_prereg, where="results: x_prereg")

    def indicator(self, name: str) -> IndicatorRecord:
        """One indicator by name; `InputError` if there is none."""
        for item in self.indicators:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.indicators)
        raise InputError(f"results: there is no indicator {name!r}; known: {known}")

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of a results file."""
        schema = cls.model_json_schema()
        # Ours to leave out when a file is made in Python, and nobody else's.
        schema["required"] = ["schema_version", *schema["required"]]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}

    @classmethod
    def assemble(
        cls,
        indicators: Iterable[IndicatorRecord],
        *,
        prereg: Design,
        runs: Sequence[str],
        seeds: Sequence[int | None],
        event_steps: Sequence[float],
        last_steps: Sequence[int],
        calibration: CalibrationRecord,
        lock: Lock | None = None,
        prereg_path: str | None = None,
        evaluation_fingerprint: str | None = None,
        run_id: str | None = None,
        look: int | None = None,
        date: str | None = None,
        notes: Sequence[str] = (),
        excluded: Mapping[str, str] | None = None,
    ) -> Self:
        """Put an evaluation together.

        Args:
            indicators: every one that was judged, controls and failures included.
            prereg: the design that they were judged by.
            runs, seeds, event_steps, last_steps: the held-out runs in one order; an event step
                is NaN where there was no event, a seed is None where it is not known.
            calibration: where the thresholds come from.
            lock: the lock that was used, if any.
            prereg_path: where the preregistration or the lock lies.
            evaluation_fingerprint: content hash of the held-out log.
            run_id: by default the task and the first characters of the fingerprint.
            look: which look at held-out runs this is, where a lock counts them.
            date: by default today, UTC.
            notes: what a reader must know, e.g. dropped rows or missing seeds.
            excluded: run name -> label, of the runs that the event excludes; no score was judged
                on them.
        """
        apart = dict(excluded or {})
        keys = run_keys(runs, seeds)
        records = list(indicators)
        points = [point for item in records[:1] for point in item.layer_C.at_fpr[:1]]
        steps = [None if step != step else float(step) for step in event_steps]
        rows = list(zip(keys, steps, last_steps, strict=True))
        n_events = sum(step is not None for step in steps)
        task = prereg.task
        stem = (task or "runs").replace(" ", "_")
        return cls.parse(
            {
                "meta": {
                    "run_id": run_id or f"{stem}_{(evaluation_fingerprint or '0' * 8)[:8]}",
                    "date": date or datetime.datetime.now(datetime.UTC).date().isoformat(),
                    "commit_hash": prereg.commit_hash,
                    "prereg_path": prereg_path,
                },
                "boundary": {
                    "task": task,
                    "model": prereg.model,
                    "seeds_eval": [
                        run if seed is None else seed for run, seed in zip(runs, seeds, strict=True)
                    ],
                },
                "event": {
                    "type": prereg.event_type,
                    "t_event_by_seed": {key: _whole(step) for key, step, _ in rows},
                    "x_without_event": {
                        key: f"no event by step {int(last)}"
                        for (key, step, last), run in zip(rows, runs, strict=True)
                        if step is None and run not in apart
                    },
                    "x_excluded": {
                        key: apart[run] for key, run in zip(keys, runs, strict=True) if run in apart
                    },
                },
                "summary": {
                    "n_seeds": len(keys),
                    "n_events": n_events,
                    "notes": " ".join(notes),
                    "x_notes": list(notes),
                    "x_event_count_min": prereg.event_count_min,
                    "x_n_too_early": points[0].x_n_too_early if points else None,
                    "x_look": look,
                    "x_looks": prereg.looks,
                    "x_n_excluded": len(apart),
                },
                "indicators": [item.model_dump(mode="python") for item in records],
                "tables": TABLES,
                "x_protocol": prereg.protocol,
                "x_prereg": prereg.plain(),
                "x_calibration": calibration.model_dump(mode="python"),
                "x_provenance": provenance(prereg, lock, evaluation_fingerprint),
            },
            where="results",
        )


def run_keys(runs: Sequence[str], seeds: Sequence[int | None]) -> list[str]:
    """How `t_event_by_seed` calls the runs: by seed; by name where seeds do not tell them apart."""
    keys = [run if seed is None else str(seed) for run, seed in zip(runs, seeds, strict=True)]
    return keys if len(set(keys)) == len(keys) else list(runs)


def provenance(
    prereg: Design | None, lock: Lock | None, evaluation_fingerprint: str | None
) -> Mapping[str, Any]:
    """What would have to be the same for the same numbers to come out."""
    return {
        "package_version": __version__,
        "python": platform.python_version(),
        "packages": _loaded_versions(),
        "prereg_hash": canonical_hash(prereg.plain()) if prereg else None,
        "lock_hash": lock.hash if lock else None,
        "explore_fingerprint": lock.x_lock.explore_fingerprint if lock else None,
        "evaluation_fingerprint": evaluation_fingerprint,
        "seed_of_draws": prereg.seed if prereg else None,
    }


def _loaded_versions() -> dict[str, str]:
    """Versions of the packages that took part: those that are loaded in this process."""
    found = {}
    for package in _PACKAGES:
        module = {"scikit-learn": "sklearn"}.get(package, package)
        if module in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
    return found


def _whole(step: float | None) -> float | int | None:
    return int(step) if step is not None and step == int(step) else step


# Whether anybody's results file is one: the schema, and what its numbers must agree on.


_SLACK = 1e-9  # a mean of rates may pass 1 by a rounding error


@dataclass(frozen=True)
class FileCheck:
    """A results file beside the schema.

    Attributes:
        violations: one line each, beginning with the path of the field.
        set_aside: extensions of others that do not read as ours, which they need not.
        results: what the file says; None where it does not match the schema.
    """

    violations: tuple[str, ...]
    set_aside: tuple[str, ...]
    results: Results | None


def check_results(path: str | Path) -> FileCheck:
    """Every violation of a results file, in YAML or JSON.

    A file without a single `x_` key is as good as ours; so is one whose `x_` keys are its own.

    Raises:
        InputError: the file cannot be read.
    """
    data = load_document(path)
    checked = Results.check(data)
    faults = list(checked.faults)
    if isinstance(data, dict) and "schema_version" not in data:
        faults.insert(0, "schema_version is required; add it")
    if faults:
        return FileCheck(tuple(faults), checked.set_aside, None)
    results = Results.parse(checked.content, where=str(path))
    return FileCheck(tuple(_disagreements(results)), checked.set_aside, results)


def _disagreements(results: Results) -> Iterator[str]:
    summary = results.summary
    steps = results.event.t_event_by_seed
    known = sum(step is not None for step in steps.values())
    if summary.n_events is not None and summary.n_events > summary.n_seeds:
        yield f"summary.n_events is {summary.n_events}, of n_seeds {summary.n_seeds}"
    if steps and summary.n_events is not None and known != summary.n_events:
        yield (
            f"summary.n_events is {summary.n_events}, but event.t_event_by_seed has {known} events"
        )
    for place, item in enumerate(results.indicators):
        yield from (f"indicators[{place}].{fault}" for fault in _of_indicator(item))


def _of_indicator(item: IndicatorRecord) -> Iterator[str]:
    gate, points = item.layer_B, item.layer_C.at_fpr
    shares = {
        "layer_A.auc": item.layer_A.auc,
        "layer_A.ap": item.layer_A.ap,
        "layer_B.fpr_min": gate.fpr_min,
        "layer_D.pass_rate": item.layer_D.pass_rate,
        "layer_D.label_flip_rate": item.layer_D.label_flip_rate,
        **{f"layer_B.targets[{n}]": target for n, target in enumerate(gate.targets)},
        **{f"layer_B.achieved[{n}].achieved": row.achieved for n, row in enumerate(gate.achieved)},
        **{f"layer_C.at_fpr[{n}].fpr": point.fpr for n, point in enumerate(points)},
        **{f"layer_C.at_fpr[{n}].coverage": point.coverage for n, point in enumerate(points)},
        **{
            f"layer_C.at_fpr[{n}].lead_time_success": point.lead_time_success
            for n, point in enumerate(points)
        },
    }
    for path, value in shares.items():
        if value is not None and not -_SLACK <= value <= 1 + _SLACK:
            yield f"{path} must be a share between 0 and 1, got {value:g}"
    for n, row in enumerate(gate.achieved):
        if row.target not in gate.targets:
            yield f"layer_B.achieved[{n}].target {row.target:g} is not among layer_B.targets"
    if gate.ok_targets is not None and gate.ok_targets > len(gate.targets):
        yield f"layer_B.ok_targets is {gate.ok_targets}, of {len(gate.targets)} targets"
    yield from _of_label(item)


def _of_label(item: IndicatorRecord) -> Iterator[str]:
    """A failed layer B is invalid for alarm, whatever the ranking (spec 4.2)."""
    if item.label != "SUPPORTED_FOR_ALARM":
        return
    if item.layer_B.controllability_pass is False:
        yield f"label is {item.label}, but layer_B.controllability_pass is false"
    if item.layer_B.fpr_floor_detected:
        yield f"label is {item.label}, but layer_B.fpr_floor_detected is true"


# From the layers of one score to its entry in the results file, every null with its reason.


NullLocation = tuple[int | str, ...]
"""Where in an entry: keys and list indices from the top."""

_NO_EVENT = "no held-out run has an event"
_NO_WARNING = "no event was warned of at this target"
_NO_NEGATIVE = "no held-out run has a negative window"
_ONE_CLASS = "the labelled windows are of one class only"
_NOT_DECLARED = "not declared"

# Last field of the path -> why it may be null; what depends on the score is in `_reason`.
_REASONS = {
    "family": _NOT_DECLARED,
    "x_sees_test_labels": _NOT_DECLARED,
    "x_sign": _NOT_DECLARED,
    "auc": _ONE_CLASS,
    "ap": _ONE_CLASS,
    "x_auc_run_mean": "no run has windows of both classes",
    "x_ap_run_mean": "no run has windows of both classes",
    "x_auc_run_sd": "fewer than two runs have windows of both classes",
    "x_ap_run_sd": "fewer than two runs have windows of both classes",
    "achieved": _NO_NEGATIVE,
    "x_achieved_pooled": _NO_NEGATIVE,
    "x_interval": _NO_NEGATIVE,
    "x_budget_used": _NO_NEGATIVE,
    "x_effective_budget": "only strict thresholds from a known number of runs have one",
    "x_floor_certificate": _NO_NEGATIVE,
    "fpr_min": _NO_NEGATIVE,
    "tied_value": "the highest negative score is not tied",
    "coverage": _NO_EVENT,
    "x_coverage_interval": _NO_EVENT,
    "lead_time_success": _NO_EVENT,
    "x_lead_time_success_interval": _NO_EVENT,
    "x_false_alarms_per_run": _NO_NEGATIVE,
    "x_false_alarms_per_10k_steps": _NO_NEGATIVE,
    "x_time_in_warning": "no window lies between burn-in and t*",
    "x_episode_precision": "there is no alarm episode",
    "x_shift_null": _NO_EVENT,
    "x_risk_set_null": _NO_EVENT,
    "x_p_value": _NO_EVENT,
    "x_p_adjusted": _NO_EVENT,
    "fpr": _NO_NEGATIVE,
    "effective_support_size": _NO_NEGATIVE,
    "x_tail_support_size": _NO_NEGATIVE,
    "tie_dominance": _NO_NEGATIVE,
    "x_n_eff": "the score is constant over negative windows, or there are none",
    "x_design_effect": "the score is constant over negative windows, or there are none",
    "x_abstain_rate": _NO_EVENT,
    "x_scope": "the label is not SCOPE_LIMITED",
}

# The same for an entry of `x_strata`.
_STRATUM_REASONS = {
    "achieved": "no run of the stratum has a negative window",
    "interval": "no run of the stratum has a negative window",
    "lead_time_median": "no event of the stratum was warned of",
    "label_flip_rate": "not measured, since something else already fails",
}


def indicator_record(
    name: str,
    parts: IndicatorVerdictParts,
    *,
    family: str | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
) -> IndicatorRecord:
    """The entry of one score.

    Args:
        name: the score.
        parts: its layers and its verdict.
        family: as registered.
        sign: times the declared orientation.
        sees_test_labels: whether it is an oracle; None where that is not known.
    """
    b, d, verdict = parts.layer_b, parts.layer_d, parts.verdict
    plain = {
        "name": name,
        "family": family,
        "layer_A": _extend(parts.layer_a.to_dict(), keep=("auc", "ap")),
        "layer_B": {
            "targets": [result.target for result in b.targets],
            "achieved": [
                _extend(result.to_dict(), keep=("target", "achieved")) for result in b.targets
            ],
            "ok_targets": b.ok_targets,
            "fpr_min": b.fpr_min,
            "controllability_pass": b.controllability_pass,
            "fpr_floor_detected": b.fpr_floor_detected,
            "x_passed": b.passed,
            "x_floor_certificate": b.certificate.to_dict() if b.certificate else None,
            "x_calibration": b.calibration,
            "x_n_runs": b.n_runs,
            "x_n_windows": b.n_windows,
            "x_dropped_windows": b.dropped_windows,
        },
        "layer_C": {"at_fpr": [_point(point) for point in parts.layer_c.points]},
        "layer_D": {
            "family_size": d.family_size,
            "pass_rate": d.pass_rate,
            "label_flip_rate": d.label_flip_rate,
            "sensitivity_notes": " ".join(d.notes),
            "x_central_label": d.central_label,
            "x_members": [member.to_dict() for member in d.members],
        },
        "label": verdict.label,
        "diagnostics": _diagnostics(parts),
        "x_sign": sign,
        "x_sees_test_labels": sees_test_labels,
        "x_alarm_eligible": verdict.alarm_eligible,
        "x_reasons": list(verdict.reasons),
        "x_sentence": verdict.sentence,
        "x_p_adjusted": verdict.p_adjusted,
        "x_runs_to_settle": verdict.runs_to_settle,
        "x_scope": verdict.scope.to_dict() if verdict.scope else None,
        "x_strata": [part.to_dict() for part in parts.strata],
    }
    plain["x_null_reasons"] = dict(null_reasons(plain))
    return IndicatorRecord.parse(plain, where=f"results: {name}")


def _extend(plain: Mapping[str, Any], *, keep: tuple[str, ...]) -> dict[str, Any]:
    """The specification's fields as they are, all others under `x_`."""
    return {key if key in keep else f"x_{key}": value for key, value in plain.items()}


def _point(point: OperatingPoint) -> dict[str, Any]:
    keep = ("fpr", "coverage", "lead_time_median", "lead_time_iqr", "lead_time_success")
    return _extend(point.to_dict(), keep=keep)


def _diagnostics(parts: IndicatorVerdictParts) -> dict[str, Any]:
    found = parts.diagnostics
    plain = _extend(found.to_dict(), keep=("effective_support_size", "tie_dominance", "comments"))
    plain["x_tail_support_size"] = plain.pop("x_tail_k")
    return {**plain, "comments": "; ".join(found.comments)}


def null_reasons(
    entry: Mapping[str, Any], reason: Callable[[NullLocation, Mapping[str, Any]], str] | None = None
) -> Iterator[tuple[str, str]]:
    """The path of each null in an entry, and why it is null.

    Args:
        entry: an indicator as plain data.
        reason: says why, from the null's location and the entry; by default as the layers do.
    """
    for location in _nulls(json_like(entry), ()):
        yield path_text(location), (reason or _reason)(location, entry)


def _nulls(value: Any, location: NullLocation) -> Iterator[NullLocation]:
    if value is None:
        yield location
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nulls(item, (*location, index))


def _reason(location: NullLocation, entry: Mapping[str, Any]) -> str:
    field = str(location[-1])
    if location[0] == "x_strata":
        return _STRATUM_REASONS.get(field, "no run of the stratum has an event")
    if field == "x_runs_to_settle":
        if entry["label"] == "INCONCLUSIVE":
            return "no number can be given"
        return "the verdict is settled"
    if "lead_time" in field and field not in _REASONS:
        point = entry["layer_C"]["at_fpr"][location[2]]
        return _NO_WARNING if point["x_n_events"] else _NO_EVENT
    return _REASONS[field]


# The specification's definition of done (section 7), checked on a results file.


_EVENTS_SUGGESTED = 30


@dataclass(frozen=True)
class Check:
    """One requirement, whether it holds, and by which numbers."""

    requirement: str
    passed: bool
    detail: str


def definition_of_done(results: Results, folder: str | Path | None = None) -> tuple[Check, ...]:
    """The four requirements; a run is acceptable only if all of them hold.

    Args:
        results: what was found.
        folder: where the results file lies; the summary table is then looked into. Without, a
            stated path must do.
    """
    points = _operating_points(results)

    def has_layer_c(item: IndicatorRecord) -> bool:
        return _has_layer_c(item, points)

    return (
        _event_count(results),
        _each(
            results,
            "Layer B is computed and reported for every indicator",
            _has_layer_b,
            "an achieved rate at every target",
        ),
        _each(
            results,
            "Coverage and lead time are reported at every operating point",
            has_layer_c,
            f"them at {', '.join(f'{point:g}' for point in points) or 'no point'}",
        ),
        _summary_table(results, None if folder is None else Path(folder)),
    )


def _event_count(results: Results) -> Check:
    least = results.summary.x_event_count_min
    least = _EVENTS_SUGGESTED if least is None else least
    events = results.summary.n_events
    known = "an unknown number of" if events is None else f"{events:,}"
    return Check(
        f"At least {least} events across seeds",
        events is not None and events >= least,
        f"{known} events in {results.summary.n_seeds:,} runs",
    )


def _each(
    results: Results, requirement: str, holds: Callable[[IndicatorRecord], bool], what: str
) -> Check:
    lacking = [item.name for item in results.indicators if not holds(item)]
    total = len(results.indicators)
    detail = f"{total - len(lacking)} of {total} indicators have {what}"
    if lacking:
        detail += f"; missing: {', '.join(lacking)}"
    return Check(requirement, bool(total) and not lacking, detail)


def _has_layer_b(item: IndicatorRecord) -> bool:
    answered = {
        row.target
        for row in item.layer_B.achieved
        if row.achieved is not None or row.x_answer == "ABSTAIN"
    }
    return bool(item.layer_B.targets) and answered.issuperset(item.layer_B.targets)


def _operating_points(results: Results) -> tuple[float, ...]:
    """Those of the preregistration; where none is stored, all that any indicator is judged at."""
    prereg = results.prereg
    if prereg is not None:
        return prereg.fpr_targets
    stated = {point.fpr for item in results.indicators for point in item.layer_C.at_fpr}
    return tuple(sorted(stated))


def _has_layer_c(item: IndicatorRecord, points: tuple[float, ...]) -> bool:
    # A lead time exists only where an event was warned of: zero coverage is a full report.
    reported = {
        point.fpr
        for point in item.layer_C.at_fpr
        if point.coverage is not None
        and (point.lead_time_median is not None or point.coverage == 0)
    }
    return bool(points) and reported.issuperset(points)


def _summary_table(results: Results, folder: Path | None) -> Check:
    requirement = "A single summary table exists"
    path = results.tables.gate_summary_path
    if path is None:
        return Check(requirement, False, "no path is given")
    if folder is None:
        return Check(requirement, True, path)
    table = folder / path
    if not table.is_file():
        return Check(requirement, False, f"{path} is not there")
    if table.suffix == ".csv":
        with table.open(encoding="utf-8", newline="") as file:
            listed = {row.get("indicator") for row in csv.DictReader(file)}
        missing = [item.name for item in results.indicators if item.name not in listed]
        if missing:
            return Check(requirement, False, f"{path} lacks {', '.join(missing)}")
    return Check(
        requirement, True, f"{path}, a row for each of {len(results.indicators)} indicators"
    )
