"""results.yaml: assembled from the layers, written atomically, read back and checked.

The same input gives the same bytes. `Results.json_schema()` is shipped as
`results_schema_v0.4.json` for readers in other languages.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import datetime
import hashlib
import math
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from gmb_hf._lazy import from_above
from gmb_hf._version import __version__
from gmb_hf.base.documents import (
    Count,
    Many,
    Number,
    OpenSection,
    Section,
    UnknownKey,
    canonical_hash,
    check_seal,
    faults,
    load_document,
    path_text,
    plain_data,
    seal,
    write_yaml,
)
from gmb_hf.base.errors import InputError, repeated
from gmb_hf.base.escape import cut, html_table, percent, steps, yes_no
from gmb_hf.base.files import json_text, parse_json, write_text
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord, gate
from gmb_hf.benchmark.operationality import LayerBRecord
from gmb_hf.benchmark.records import LABELS, SUPPORTED
from gmb_hf.benchmark.verdict import AGAINST_ALARM, IndicatorRecord, against_alarm
from gmb_hf.design.design import SPECIFIED_TABLES, UNDECLARED, Design
from gmb_hf.design.lock import Lock
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# The sections of the file, beside the indicators.


class MetaRecord(OpenSection):
    """Which evaluation this is."""

    benchmark: Literal["GMB"] = "GMB"
    run_id: str
    date: str
    commit_hash: str | None = None
    prereg_path: str | None = None


class BoundaryRecord(OpenSection):
    """The system that the verdict speaks about."""

    task: str | None
    model: str | None
    seeds_eval: Many[int | str] = ()
    x_judged: dict[str, Many[Any]] | None = Field(
        None,
        description="what the judged runs say of theirs, where that is another than the lock's",
        exclude_if=lambda said: said is None,
    )


class EventRecord(OpenSection):
    """The event, and t* of each run in steps (null: none was registered)."""

    type: str
    t_event_by_seed: dict[str, int | FiniteFloat | None] = Field(default_factory=dict)
    x_without_event: dict[str, str] = Field(default_factory=dict)
    x_excluded: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of_log(
        cls, kind: str, log: RunLog, event_steps: Sequence[float], excluded: Mapping[str, str]
    ) -> Self:
        """The events of the runs of a log: an event step is NaN where there was no event.

        Runs go by their seeds, by their names where seeds do not tell them apart.
        """
        keys = [
            run if seed is None else str(seed)
            for run, seed in zip(log.runs, log.seeds, strict=True)
        ]
        if len(set(keys)) < len(keys):
            keys = list(log.runs)
        steps: dict[str, int | float | None] = {}
        without, left_out = {}, {}
        last_steps = log.panel("step").last_step.tolist()
        for key, run, step, last in zip(keys, log.runs, event_steps, last_steps, strict=True):
            happened = step == step
            steps[key] = (int(step) if step == int(step) else float(step)) if happened else None
            if run in excluded:
                left_out[key] = excluded[run]
            elif not happened:
                without[key] = f"no event by step {last}"
        content = {"type": kind, "t_event_by_seed": steps}
        return cls.parse(
            {**content, "x_without_event": without, "x_excluded": left_out}, where="results: event"
        )

    @property
    def n_events(self) -> int:
        """How many runs have an event."""
        return sum(step is not None for step in self.t_event_by_seed.values())


class SummaryRecord(OpenSection):
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


class TablesRecord(OpenSection):
    """Where the tables of section 8 lie, relative to the results file."""

    gate_summary_path: str | None = None
    utility_at_fpr_path: str | None = None
    robustness_path: str | None = None


class CalibrationRecord(OpenSection):
    """Where the thresholds come from and what their budgets are worth."""

    method: Literal["locked", "explore", "cross_run", "in_sample", "given"]
    n_runs: Count | None = None
    effective_budget: dict[str, Number] = Field(default_factory=dict)


class SourceRecord(OpenSection):
    """A dataset of the Hub at one commit: the runs that were judged, or what they learned."""

    what: Literal["runs", "data"]
    repo: str
    revision: str
    config: str
    fingerprint: str


class PublishedRecord(OpenSection):
    """Where the lock and this look lie on the Hub, whose commits show what came first."""

    repo: str
    lock_commit: str
    look_commit: str
    before_evaluation: bool


class ProvenanceRecord(OpenSection):
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


class Checked(NamedTuple):
    """A document beside its schema: faults, one line each, that begin with the path; paths of
    extensions that are not ours and do not read as ours; the document without those, and without
    unknown keys."""

    faults: tuple[str, ...]
    set_aside: tuple[str, ...]
    content: Any


def check(model: type[Section], data: Any, *, ours: bool) -> Checked:
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
        return Checked(tuple(found), tuple(set_aside), content)


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
    """Take out what lies there, if anything does."""
    *parents, last = location
    for part in parents:
        content = content[part]
    return last in content and content.pop(last) is not None


_HEADING = "GMB results, schema v0.4; keys that begin with x_ are extensions of gmb-hf"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers")
TABLES = {f"{name}_path": f"tables/{name}.csv" for name in SPECIFIED_TABLES}
_TABLES_BY_RUNS = {
    "x_first_alarm_path": "tables/first_alarm.csv",
    "x_other_events_path": "tables/other_events.csv",
}


class Results(OpenSection):
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
    x_published: PublishedRecord | None = None
    x_seal: str | None = Field(None, description="SHA-256 of the canonical JSON of all the rest")

    @model_validator(mode="after")
    def _holds_together(self) -> Results:
        twice = repeated(item.name for item in self.indicators)
        if twice is not None:
            raise ValueError(f"indicators: the name {twice!r} is used twice")
        for place, item in enumerate(self.indicators):
            where = f"indicators[{place}].x_alarm_eligible is true"
            first = item.x_first_alarm.label if item.x_first_alarm else None
            if first != SUPPORTED and item.x_alarm_eligible:
                raise ValueError(f"{where}, the label by runs (x_first_alarm) is {first}")
            against = against_alarm(item, self.x_protocol, locked=self.locked)
            if item.x_alarm_eligible and against:
                raise ValueError(f"{where}, but {AGAINST_ALARM[against[0]]}")
            if item.label == SUPPORTED and self.x_protocol == "compat":
                raise ValueError(
                    f"indicators[{place}].label is {item.label}, which x_protocol compat cannot "
                    "support: its thresholds are found on the windows that they are judged by"
                )
        return self

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a results file, ours or anybody's, or the one in a folder of results.

        Raises:
            InputError: it does not match the schema; the path of each fault is named, and the
                version that wrote it where that is another one.
        """
        path = Path(path)
        if path.is_dir():
            path /= "results.yaml"
        twin = _read_twin(path)
        if twin is not None:
            with contextlib.suppress(ValidationError):
                return cls.model_validate(twin)
        data = load_results(path)
        found = data.get("schema_version") if isinstance(data, dict) else None
        if found is None:
            raise InputError(f"{path}: is no results file: it has no schema_version")
        if found != "v0.4":
            raise InputError(f"{path}: schema_version is {found!r}, this version reads 'v0.4' only")
        with _of_another_version(path, data):
            checked = cls.check(data)
            if checked.faults:
                more = f" (and {len(checked.faults) - 3} more)" if len(checked.faults) > 3 else ""
                raise InputError(f"{path}: {'; '.join(checked.faults[:3])}{more}")
            found = cls.parse(checked.content, where=str(path))
        if found.x_seal is not None:
            found.check_seal(str(path), checked.content)
        return found

    def sealed(self) -> Self:
        """The same with a seal over all of it."""
        return self.model_copy(update={"x_seal": seal(self.plain(), "x_seal")})

    def check_seal(self, where: str, content: Mapping[str, Any] | None = None) -> None:
        """Raise `InputError` unless the seal is that of the content, as read from a file or own."""
        hint = "evaluate again with gmb evaluate"
        if self.x_seal is None:
            raise InputError.at(where, "no_seal", f"has no seal (x_seal); {hint}")
        edited = ("results_edited", "gmb evaluate wrote it", hint)
        content = self.plain() if content is None else content
        check_seal(content, "x_seal", where, edited, parsed=self.plain)

    @classmethod
    def check(cls, data: Any) -> Checked:
        """Hold plain data against the schema: every fault, and what of others is no part of it."""
        source = data.get("x_provenance") if isinstance(data, dict) else None
        ours = isinstance(source, dict) and "package_version" in source
        return check(cls, data, ours=ours)

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically; equal results give equal bytes.

        Sealed results are written as JSON as well, `results.json` beside `results.yaml`, which
        `read` takes instead as long as the YAML is the one that it was written with.
        """
        plain = self.plain()
        written = write_yaml(path, plain, heading=_HEADING)
        _write_twin(written, plain)
        return written

    def plain(self) -> dict[str, Any]:
        """The whole file as plain data; nulls stay, since they say that a number is missing."""
        return dict(plain_data(self.model_dump(), number=float))

    @property
    def locked(self) -> bool:
        """Whether runs were judged by a lock; without one an evaluation is exploratory."""
        source, calibration = self.x_provenance, self.x_calibration
        by_lock = calibration is not None and calibration.method == "locked"
        return by_lock and source is not None and source.lock_hash is not None

    @property
    def design(self) -> Design | None:
        """The design that is stored with the results, if one is."""
        if self.x_prereg is None:
            return None
        return Design.parse(self.x_prereg, where="results: x_prereg")

    @property
    def primary_run_budget(self) -> float | None:
        """The share of runs that decides; None where first alarms were not judged at it."""
        judged = [item.x_first_alarm for item in self.indicators if item.x_first_alarm is not None]
        design = self.design if judged else None
        if design is None:
            return None
        budget = design.primary_run_budget
        # Files of other people may have other budgets than their preregistration.
        everywhere = all(any(at.budget == budget for at in first.at_budget) for first in judged)
        return budget if everywhere else None

    def __repr__(self) -> str:
        """One line: what was judged on how many runs, the labels, and how many may alarm."""
        by_runs = self.primary_run_budget is not None
        labels = Counter(
            item.x_first_alarm.label if by_runs and item.x_first_alarm else item.label
            for item in self.indicators
        )
        said = ", ".join(f"{labels[label]} {label}" for label in LABELS if labels[label])
        able = sum(bool(item.x_alarm_eligible) for item in self.indicators)
        runs = "held-out runs" if self.locked else "runs, without a lock"
        return (
            f"Results({cut(self.meta.run_id, 40)!r}, {self.summary.n_seeds} {runs}, "
            f"{len(self.indicators)} scores by {'runs' if by_runs else 'windows'}: {said}; "
            f"{able} may raise an alarm)"
        )

    def _repr_html_(self) -> str:
        """The scores that warn of most, those that may raise an alarm first, for a notebook."""
        names = ("score", "label", "warned of", "falsely alarmed", "lead", "may raise an alarm")
        rows = [
            (
                row["indicator"],
                row["label_by_runs"] or row["label_by_windows"],
                *map(percent, (row["warned"], row["false_share"])),
                steps(row["lead_median"]),
                yes_no(row["alarm_eligible"]),
            )
            for row in sorted(
                self._rows(), key=lambda row: (not row["alarm_eligible"], -(row["warned"] or 0.0))
            )
        ]
        return html_table(repr(self), names, rows[:10], len(rows), "scores: results.to_pandas()")

    def to_pandas(self) -> DataFrame:
        """A DataFrame with a row per score, in the order of the file.

        Columns have the names of the tables `first_alarm` and `gate_summary`, shares are of 1 and
        leads in steps: what the first alarm is worth at `budget`, the primary budget of runs, and
        `blind`, the share of events that the hardest blind alarm of the same cost warns of. What
        does not exist is NaN, or None in a column of text.
        """
        from pandas import DataFrame

        rows = list(self._rows())
        return DataFrame(rows, columns=list(rows[0]) if rows else None)

    def _rows(self) -> Iterator[dict[str, Any]]:
        budget = self.primary_run_budget
        for item in self.indicators:
            first = item.x_first_alarm
            at = None if first is None or budget is None else first.at(budget)
            false, warned = follow(at, "false_interval"), follow(at, "warned_interval")
            yield {
                "indicator": item.name,
                "group": item.group,
                "family": item.family,
                "label_by_runs": follow(first, "label"),
                "alarm_eligible": item.x_alarm_eligible,
                "budget": budget,
                "warned": follow(at, "warned"),
                "warned_low": follow(warned, "low"),
                "warned_high": follow(warned, "high"),
                "timely": follow(at, "timely"),
                "early": follow(at, "early"),
                "missed": follow(at, "missed"),
                "false_share": follow(at, "false_share"),
                "false_low": follow(false, "low"),
                "false_high": follow(false, "high"),
                "lead_median": follow(at, "lead_median"),
                "blind": max(at.blind.values(), default=None) if at else None,
                "p_adjusted": follow(first, "p_adjusted"),
                "threshold": follow(at, "threshold"),
                "AUC": item.layer_A.auc,
                "AP": item.layer_A.ap,
                "label_by_windows": item.label,
                "sentence": follow(first, "sentence") or item.x_sentence,
            }

    def plot(self) -> Figure:
        """What becomes of 100 runs if somebody acts on the first alarm of each score; a notebook
        shows the figure. As `gmb_hf.plot(results)`, which names the errors."""
        figure: Figure = from_above("plot")(self)
        return figure

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
        indicators: Sequence[IndicatorRecord],
        log: RunLog,
        event_steps: Sequence[float],
        *,
        design: Design | None,
        calibration: CalibrationRecord,
        lock: Lock | None = None,
        prereg_path: str | None = None,
        look: int | None = None,
        date: str | None = None,
        notes: Sequence[str] = (),
        excluded: Mapping[str, str] | None = None,
        system: Mapping[str, Sequence[Any]] | None = None,
        **more: Any,
    ) -> Self:
        """Put an evaluation together.

        Args:
            indicators: every one that was judged, controls and failures included.
            log: the held-out runs.
            event_steps: of each of them, NaN where there was no event.
            design: what they were judged by; None under protocol compat, which has settings.
            calibration: where the thresholds come from.
            lock: the lock that was used, if any.
            prereg_path: where the design or the lock lies.
            look: which look at held-out runs this is, where a lock counts them.
            date: by default today, UTC.
            notes: what a reader must know, e.g. dropped rows or missing seeds.
            excluded: run name -> label, of the runs that the event excludes; no score was judged
                on them.
            system: what the runs say of theirs, where it may be another than the lock's.
            more: other sections, and fields of `summary`.
        """
        kind, stem, task = "E_jump", "compat", None
        if design is not None:
            kind, task = design.event_type, design.task
            # The task's name without what qualifies it.
            named = None if task == UNDECLARED else task
            stem = (named or "runs").partition(",")[0].replace(" ", "_")
        event = EventRecord.of_log(kind, log, event_steps, excluded or {})
        first = indicators[0].layer_C.at_fpr[:1] if indicators else ()
        summary: dict[str, Any] = {
            "n_seeds": len(log.runs),
            "n_events": event.n_events,
            "notes": " ".join(notes),
            "x_notes": list(notes),
            "x_n_too_early": first[0].x_n_too_early if first else None,
        }
        sections: dict[str, Any] = {}
        if design is not None:
            summary |= {
                "x_event_count_min": design.event_count_min,
                "x_look": look,
                "x_looks": design.looks,
                "x_n_excluded": len(excluded or ()),
            }
            sections = {"x_protocol": design.protocol, "x_prereg": design.plain()}
        summary |= more.pop("summary", {})
        by_runs = [item.x_first_alarm for item in indicators if item.x_first_alarm is not None]
        known = (bool(by_runs), any(first.other_events for first in by_runs))
        written = [pair for pair, has in zip(_TABLES_BY_RUNS.items(), known, strict=True) if has]
        fingerprint, seeds = log.fingerprint(), zip(log.runs, log.seeds, strict=True)
        content = {
            "meta": {
                "run_id": f"{stem}_{fingerprint[:8]}",
                "date": date or datetime.datetime.now(datetime.UTC).date().isoformat(),
                "commit_hash": design.commit_hash if design else None,
                "prereg_path": prereg_path,
            },
            "boundary": {
                "task": task,
                "model": design.model if design else None,
                "seeds_eval": [run if seed is None else seed for run, seed in seeds],
                "x_judged": system,
            },
            "event": event,
            "summary": summary,
            "indicators": tuple(indicators),
            "tables": {**TABLES, **dict(written)},
            "x_calibration": calibration,
            "x_provenance": {
                "package_version": __version__,
                "python": platform.python_version(),
                "packages": _loaded_versions(),
                "prereg_hash": canonical_hash(design.plain()) if design else None,
                "lock_hash": lock.hash if lock else None,
                "explore_fingerprint": lock.x_lock.explore_fingerprint if lock else None,
                "evaluation_fingerprint": fingerprint,
                "seed_of_draws": design.seed if design else None,
            },
            "x_sources": hub_sources(log.metadata),
        }
        return cls.parse({**content, **sections, **more}, where="results").sealed()


@contextlib.contextmanager
def _of_another_version(path: str | Path, data: Mapping[str, Any]) -> Iterator[None]:
    """Say of a file that cannot be read which version of this package wrote it, if another did."""
    try:
        yield
    except InputError as error:
        source = data.get("x_provenance")
        writer = source.get("package_version") if isinstance(source, dict) else None
        if not isinstance(writer, str) or writer == __version__:
            raise
        fault = str(error).removeprefix(f"{path}: ")
        raise InputError.at(
            path,
            "other_version",
            f"was written by gmb-hf {cut(writer, 20)} and cannot be read by {__version__} "
            f"({fault}); evaluate the runs again with gmb evaluate",
        ) from error


def _loaded_versions() -> dict[str, str]:
    """Versions of the packages that took part: those that are loaded in this process."""
    found = {}
    for package in _PACKAGES:
        if {"scikit-learn": "sklearn"}.get(package, package) in sys.modules:
            with contextlib.suppress(PackageNotFoundError):
                found[package] = version(package)
    return found


# The same in JSON beside the YAML: 40 scores take a tenth of the time to read. Two checksums begin
# it, of the YAML that it was written with and of all that follows.

_MARKS = ("x_yaml_sha256", "x_json_sha256")
_BEGINNING = re.compile("".join(rf'[{{,]"{mark}":"([0-9a-f]{{64}})"' for mark in _MARKS) + ",")


def load_results(path: str | Path) -> Any:
    """Plain data of a results file, in YAML or JSON.

    Raises:
        InputError: as `load_document`.
    """
    data = load_document(path)
    if isinstance(data, dict):
        for mark in _MARKS:
            data.pop(mark, None)
    return data


def _write_twin(path: Path, plain: Mapping[str, Any]) -> None:
    twin = path.with_suffix(".json")
    if path.suffix not in (".yaml", ".yml"):
        return
    ours = not twin.exists()
    if twin.is_file():
        with twin.open("rb") as file:
            ours = _BEGINNING.match(file.read(200).decode(errors="replace")) is not None
    if not ours:
        return  # somebody's file that happens to have this name
    if plain["x_seal"] is None or plain["x_seal"] != seal(plain, "x_seal"):
        twin.unlink(missing_ok=True)
        return
    text = json_text(plain)
    body = f"{text[1:]}\n"
    hashes = (hashlib.sha256(content).hexdigest() for content in (path.read_bytes(), body.encode()))
    marks = ",".join(f'"{mark}":"{value}"' for mark, value in zip(_MARKS, hashes, strict=True))
    write_text(twin, f"{{{marks},{body}")


def _read_twin(path: Path) -> Any:
    """What the JSON beside a YAML file holds; None unless both are as they were written."""
    twin = path.with_suffix(".json")
    if path.suffix not in (".yaml", ".yml") or not (path.is_file() and twin.is_file()):
        return None
    try:
        text = twin.read_bytes().decode()
        begins = _BEGINNING.match(text)
        if begins is None:
            return None
        contents = path.read_bytes(), text[begins.end() :].encode()
        if [hashlib.sha256(content).hexdigest() for content in contents] != list(begins.groups()):
            return None
        return parse_json(f"{{{text[begins.end() :]}", where=str(twin))
    except (OSError, ValueError):
        return None


# Whether anybody's results file is one: the schema, and what its numbers must agree on.

_SLACK = 1e-9  # a mean of rates may pass 1 by a rounding error


def check_results(path: str | Path) -> Checked:
    """Every violation of a results file, in YAML or JSON.

    The content of what is returned is `Results`, or None where there are faults in the form. A file
    without a single `x_` key is as good as ours; so is one whose `x_` keys are its own.

    Raises:
        InputError: the file cannot be read.
    """
    data = load_results(path)
    checked = Results.check(data)
    faults = list(checked.faults)
    if isinstance(data, dict) and "schema_version" not in data:
        faults.insert(0, "schema_version is required; add it")
    if faults:
        return Checked(tuple(faults), checked.set_aside, None)
    results = Results.parse(checked.content, where=str(path))
    faults = list(disagreements(results))
    if results.x_seal is not None:
        try:
            results.check_seal("x_seal", checked.content)
        except InputError as error:
            faults.append(str(error))
    return Checked(tuple(faults), checked.set_aside, results)


def disagreements(results: Results) -> Iterator[str]:
    """What a file says that cannot all be right."""
    summary, known = results.summary, results.event.n_events
    if summary.n_events is not None and summary.n_events > summary.n_seeds:
        yield f"summary.n_events is {summary.n_events}, of n_seeds {summary.n_seeds}"
    if results.event.t_event_by_seed and summary.n_events not in (None, known):
        yield (
            f"summary.n_events is {summary.n_events}, but event.t_event_by_seed has {known} events"
        )
    design = results.design
    for place, item in enumerate(results.indicators):
        of_gate = _of_gate(item.layer_B, design) if design else ()
        of_it = (
            *_of_indicator(item),
            *of_gate,
            *_of_first_alarm(item, design),
            *_of_eligible(item, design),
        )
        yield from (f"indicators[{place}].{fault}" for fault in of_it)


def _of_indicator(item: IndicatorRecord) -> Iterator[str]:
    gate = item.layer_B
    of = {"layer_A": "auc ap", "layer_B": "fpr_min", "layer_D": "pass_rate label_flip_rate"}
    shares = {
        f"{layer}.{field}": getattr(getattr(item, layer), field)
        for layer, fields in of.items()
        for field in fields.split()
    }
    shares |= {f"layer_B.targets[{n}]": target for n, target in enumerate(gate.targets)}
    shares |= {f"layer_B.achieved[{n}].achieved": at.achieved for n, at in enumerate(gate.achieved)}
    for field in ("fpr", "coverage", "lead_time_success"):
        for n, point in enumerate(item.layer_C.at_fpr):
            shares[f"layer_C.at_fpr[{n}].{field}"] = getattr(point, field)
    for path, value in shares.items():
        if value is not None and not -_SLACK <= value <= 1 + _SLACK:
            yield f"{path} must be a share between 0 and 1, got {value:g}"
    for n, row in enumerate(gate.achieved):
        if row.target not in gate.targets:
            yield f"layer_B.achieved[{n}].target {row.target:g} is not among layer_B.targets"
    if gate.ok_targets is not None and gate.ok_targets > len(gate.targets):
        yield f"layer_B.ok_targets is {gate.ok_targets}, of {len(gate.targets)} targets"
    # A failed layer B is invalid for alarm, whatever the ranking (spec 4.2).
    decided, floor = gate.x_decided_by or "controllability_pass", "fpr_floor_detected"
    if gate.by_budget:
        floor = "x_floor_certificate.floor"
    if item.label == SUPPORTED and gate.controlled is False:
        yield f"label is {item.label}, but layer_B.{decided} is false"
    if item.label == SUPPORTED and gate.floor:
        yield f"label is {item.label}, but layer_B.{floor} is true"


def _of_gate(gate: LayerBRecord, design: Design) -> Iterator[str]:
    """What layer B says that its rates, by the design, do not."""
    known = [(at.target, at.achieved) for at in gate.achieved if at.achieved is not None]
    near = sum(abs(rate - target) <= design.fpr_eps + _SLACK for target, rate in known)
    least, within = design.min_targets_ok, gate.n_within
    strict = design.protocol == "strict"
    given = {
        "ok_targets": near,
        "controllability_pass": near >= least,
        "fpr_floor_detected": (gate.fpr_min or 0.0) > design.fpr_floor_max + _SLACK,
        "x_budget_pass": gate.x_budget_pass if within is None else within >= least,
        "x_decided_by": "x_budget_pass" if strict else "controllability_pass",
    }
    for field, value in given.items():
        if (stated := getattr(gate, field)) not in (None, value):
            yield f"layer_B.{field} is {stated}, by its rates and x_prereg it is {value}"


def _of_first_alarm(item: IndicatorRecord, design: Design | None) -> Iterator[str]:
    """What a verdict by runs says that its counts do not."""
    first = item.x_first_alarm
    if first is None:
        return
    points = {f"at_budget[{n}]": point for n, point in enumerate(first.at_budget)}
    points |= {f"other_events[{n}].at": one.at for n, one in enumerate(first.other_events)}
    for where, point in points.items():
        yield from (f"x_first_alarm.{where}.{fault}" for fault in _of_counts(point))
    budgets = [point.budget for point in first.at_budget]
    if design is not None and sorted(budgets) != sorted(design.run_budgets):
        yield f"x_first_alarm.at_budget has {budgets}, x_prereg {list(design.run_budgets)}"
    faults = [code for code in first.reasons if code not in AGAINST_ALARM]
    if first.label == SUPPORTED and faults:
        yield f"x_first_alarm.label is {SUPPORTED}, but its reasons have {faults[0]}"


def _of_counts(at: FirstAlarmPointRecord) -> Iterator[str]:
    """What does not add up at one budget."""
    sums = {
        "n_events": at.n_warned + at.n_false_before_event + at.n_missed,
        "n_warned": at.n_timely + at.n_early,
        "n_false": at.n_false_before_event + at.n_event_free_false,
    }
    for field, total in sums.items():
        if getattr(at, field) != total:
            yield f"{field} is {getattr(at, field)}, its parts add up to {total}"
    parts = {
        "n_false": ("n_runs", at.n_runs),
        "n_event_free_false": ("n_event_free", at.n_event_free),
    }
    for field, (whole, most) in parts.items():
        if getattr(at, field) > most:
            yield f"{field} is {getattr(at, field)}, of {whole} {most}"
    shares = {
        "warned": (at.n_warned, at.n_events, at.warned_interval),
        "timely": (at.n_timely, at.n_events, at.timely_interval),
        "false_share": (at.n_false, at.n_runs, at.false_interval),
    }
    for field, (count, total, interval) in shares.items():
        stated, share = getattr(at, field), count / total if total else None
        if (stated is None) != (share is None) or abs((stated or 0) - (share or 0)) > _SLACK:
            yield f"{field} is {stated}, its counts say {share}"
        if interval is None or stated is None:
            continue
        if not interval.low - _SLACK <= stated <= interval.high + _SLACK:
            yield f"{field} is {stated}, outside its interval"
    if at.met != (at.state == "met"):
        yield f"met is {str(at.met).lower()}, state is {at.state}"
    # Cross-fitted, a fold may have no finite threshold where all runs together have one.
    if at.answer == "THRESHOLD" and math.isinf(at.threshold):
        yield f"answer is {at.answer}, the threshold {at.threshold}"


def _of_eligible(item: IndicatorRecord, design: Design | None) -> Iterator[str]:
    """What stands, by runs, against an alarm of a score that is said to be eligible."""
    first = item.x_first_alarm
    if not item.x_alarm_eligible or first is None:
        return
    if first.reasons:
        yield f"x_alarm_eligible is true, but x_first_alarm.reasons has {first.reasons[0]}"
    if item.family == "control" or item.x_sees_test_labels:
        what = "a control" if item.family == "control" else "an oracle (x_sees_test_labels)"
        yield f"x_alarm_eligible is true, but it is {what}"
    if design is None:
        return
    at = next((one for one in first.at_budget if one.budget == design.primary_run_budget), None)
    share, lead = (at.warned, at.lead_median) if at else (None, None)
    flips, p_value = first.robustness.label_flip_rate, first.p_adjusted
    wrong = {
        "robustness.label_flip_rate": (flips or 0.0) > design.max_label_flip_rate + _SLACK,
        "label": first.label != SUPPORTED,
        "met": at is None or not at.met,
        "threshold": at is None or at.answer == "ABSTAIN",
        "false_interval": at is None
        or gate(at.false_interval, at.budget, shown=first.basis != "promised") != "met",
        "warned": share is None or share < design.warned_min - _SLACK,
        "lead_median": lead is None or lead < design.lead_least,
        "p_adjusted": p_value is None or p_value > design.alpha_per_look,
    }
    for field, holds in wrong.items():
        if holds:
            yield f"x_alarm_eligible is true, but x_first_alarm: {field} does not meet x_prereg"


# The specification's definition of done (section 7), checked on a results file.

_EVENTS_SUGGESTED = 30


class Check(NamedTuple):
    """One requirement, whether it holds, and by which numbers."""

    requirement: str
    passed: bool
    detail: str


def definition_of_done(results: Results, folder: str | Path | None = None) -> tuple[Check, ...]:
    """The requirements, a lock before the evaluation among them; a run is acceptable if all hold.

    `folder` is where the results file lies, for a look into its summary table; without, a stated
    path must do.
    """
    summary, names = results.summary, [item.name for item in results.indicators]
    least = summary.x_event_count_min
    least = _EVENTS_SUGGESTED if least is None else least
    counted = "an unknown number of" if summary.n_events is None else f"{summary.n_events:,}"
    stated = {point.fpr for item in results.indicators for point in item.layer_C.at_fpr}
    points = results.design.fpr_targets if results.design else tuple(sorted(stated))

    def for_each(requirement: str, lacking: Sequence[str], what: str) -> Check:
        detail = f"{len(names) - len(lacking)} of {len(names)} indicators have {what}"
        if lacking:
            detail += f"; missing: {', '.join(lacking)}"
        return Check(requirement, bool(names) and not lacking, detail)

    return (
        Check(
            f"At least {least} events across seeds",
            summary.n_events is not None and summary.n_events >= least,
            f"{counted} events in {summary.n_seeds:,} runs",
        ),
        for_each(
            "Layer B is computed and reported for every indicator",
            [item.name for item in results.indicators if not _has_layer_b(item)],
            "an achieved rate at every target",
        ),
        for_each(
            "Coverage and lead time are reported at every operating point",
            [item.name for item in results.indicators if not _has_layer_c(item, points)],
            f"them at {', '.join(f'{point:g}' for point in points) or 'no point'}",
        ),
        Check(
            "A single summary table exists",
            *_summary_table(results.tables.gate_summary_path, folder, names),
        ),
        Check(
            "Design and thresholds frozen before evaluation",
            results.locked,
            "by a lock" if results.locked else "no lock: this evaluation is exploratory",
        ),
    )


def _has_layer_b(item: IndicatorRecord) -> bool:
    rows = item.layer_B.achieved
    answered = {r.target for r in rows if r.achieved is not None or r.x_answer == "ABSTAIN"}
    return bool(item.layer_B.targets) and answered.issuperset(item.layer_B.targets)


def _has_layer_c(item: IndicatorRecord, points: Sequence[float]) -> bool:
    # A lead time exists only where an event was warned of: zero coverage is a full report.
    reported = {
        point.fpr
        for point in item.layer_C.at_fpr
        if point.coverage == 0 or None not in (point.coverage, point.lead_time_median)
    }
    return bool(points) and reported.issuperset(points)


def _summary_table(
    path: str | None, folder: str | Path | None, names: Sequence[str]
) -> tuple[bool, str]:
    """Whether the summary table is there with a row for each indicator, and the detail."""
    if path is None or folder is None:
        return path is not None, path or "no path is given"
    table = Path(folder) / path
    if not table.is_file():
        return False, f"{path} is not there"
    if table.suffix == ".csv":
        with table.open(encoding="utf-8", newline="") as file:
            listed = {row.get("indicator") for row in csv.DictReader(file)}
        missing = ", ".join(name for name in names if name not in listed)
        if missing:
            return False, f"{path} lacks {missing}"
    return True, f"{path}, a row for each of {len(names)} indicators"
