"""results.yaml: assembled from the layers, written atomically, read back and checked.

The same input gives the same bytes. `Results.json_schema()` is shipped as
`results_schema_v0.4.json` for readers in other languages.
"""

from __future__ import annotations

import contextlib
import datetime
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from gmb_hf._lazy import from_above
from gmb_hf._version import __version__
from gmb_hf.base.checksums import Stored
from gmb_hf.base.documents import (
    Many,
    OpenSection,
    load_document,
    plain_data,
    write_yaml,
)
from gmb_hf.base.errors import InputError, repeated
from gmb_hf.base.escape import cut, html_table, percent, steps, yes_no
from gmb_hf.base.extensions import CheckedDocument, check
from gmb_hf.base.schemas import KEY
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.gates import AGAINST_ALARM, BY_THE_LETTER
from gmb_hf.benchmark.older import CHECKSUMS, SCHEMA, is_copy, without_marks
from gmb_hf.benchmark.records import LABELS, SUPPORTED
from gmb_hf.benchmark.sections import (
    BoundaryRecord,
    CalibrationRecord,
    EventRecord,
    MetaRecord,
    ProvenanceRecord,
    PublishedRecord,
    SourceRecord,
    SummaryRecord,
    TablesRecord,
)
from gmb_hf.benchmark.verdict import IndicatorRecord, against_alarm
from gmb_hf.design.design import SPECIFIED_TABLES, UNDECLARED, Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.design.lock import Lock
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_HEADING = "GMB results, schema v0.4; keys that begin with x_ are extensions of gmb-hf"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers")
TABLES = {f"{name}_path": f"tables/{name}.csv" for name in SPECIFIED_TABLES}
_TABLES_BY_RUNS = {
    "x_first_alarm_path": "tables/first_alarm.csv",
    "x_other_events_path": "tables/other_events.csv",
}

# Of the first alarm at the primary budget: an end of an interval is a column of its own.
_AT_BUDGET = (
    *("detection_rate", "detection_interval.low", "detection_interval.high"),
    *("timely_rate", "early_rate", "miss_rate"),
    *("false_alarm_rate", "false_alarm_interval.low", "false_alarm_interval.high"),
    *("lead_median", "chance"),
)


class Results(OpenSection):
    """One evaluation: every indicator, every failure, and how the numbers came about."""

    schema_version: Literal["v0.4"] = "v0.4"
    x_schema: int = Field(SCHEMA.current, description="of the keys that begin with x_")
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
    x_checksums: dict[str, str] = Field(default_factory=dict, description="part -> its checksum")
    x_checksum: str | None = Field(
        None, description="SHA-256 of the canonical JSON of all the rest"
    )
    _stored: Stored | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _holds_together(self) -> Results:
        twice = repeated(item.name for item in self.indicators)
        if twice is not None:
            raise ValueError(f"indicators: the name {twice!r} is used twice")
        for place, item in enumerate(self.indicators):
            where = f"indicators[{place}].x_alarm_eligible is true"
            if item.x_alarm_eligible and item.label != SUPPORTED:
                raise ValueError(f"{where}, the label is {item.label}")
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
        data, content = load_results(path)
        found = content.get("schema_version") if isinstance(content, dict) else None
        if found is None:
            raise InputError(f"{path}: is no results file: it has no schema_version")
        if found != "v0.4":
            raise InputError(f"{path}: schema_version is {found!r}, this version reads 'v0.4' only")
        with _of_another_schema(path, data):
            checked = cls.check(content)
            if checked.faults:
                more = f" (and {len(checked.faults) - 3} more)" if len(checked.faults) > 3 else ""
                raise InputError(f"{path}: {'; '.join(checked.faults[:3])}{more}")
            results = cls.parse(checked.content, where=str(path))
        check_file(data, str(path), results, path.with_suffix(".json"))
        results._stored = Stored(data, (results,))
        return results

    def with_checksums(self) -> Self:
        """The same with checksums over all of it."""
        added = CHECKSUMS[SCHEMA.current].added_to(self.plain())
        return self.model_copy(update={key: added[key] for key in ("x_checksums", "x_checksum")})

    def verify(self, where: str = "results") -> None:
        """Raise `InputError` unless there is a checksum, and it is that of the content.

        That of a file was checked when it was read.
        """
        if self.x_checksum is None:
            hint = "evaluate again with gmb evaluate"
            raise InputError.at(where, "no_checksum", f"has no checksum (x_checksum); {hint}")
        if self._stored is None or self._stored.of(self) is None:
            CHECKSUMS[SCHEMA.current].check(self.plain(), where)

    @classmethod
    def check(cls, data: Any) -> CheckedDocument:
        """Hold plain data against the schema: every fault, and what of others is no part of it."""
        source = data.get("x_provenance") if isinstance(data, dict) else None
        ours = isinstance(source, dict) and "package_version" in source
        return check(cls, data, ours=ours)

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically; equal results give equal bytes.

        Those that were read from a file are written as they stand there.
        """
        written = write_yaml(path, self.content, heading=_HEADING)
        copy = written.with_suffix(".json")
        if copy.is_file() and is_copy(copy.read_text(errors="replace")):
            copy.unlink()  # of other results
        return written

    @property
    def content(self) -> Mapping[str, Any]:
        """What the file says: of results that were read, as it stands there."""
        stored = self._stored.of(self) if self._stored else None
        return self.plain() if stored is None else stored

    @property
    def file_schema(self) -> int:
        """The schema that they were written in."""
        return _version(self.content, "results")

    def __eq__(self, other: object) -> bool:
        """Whether both say the same, in whatever file."""
        return isinstance(other, Results) and self.plain() == other.plain()

    def plain(self, exclude: Mapping[Any, Any] | None = None) -> dict[str, Any]:
        """The whole file as plain data; nulls stay, since they say that a number is missing."""
        return dict(plain_data(self.model_dump(exclude=exclude), number=float))

    def as_read(self) -> dict[str, Any]:
        """The same without what the file does not have: what a later version added is not there."""
        return dict(plain_data(self.model_dump(exclude_unset=True), number=float))

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
        labels = Counter(item.label for item in self.indicators)
        said = ", ".join(f"{labels[label]} {label}" for label in LABELS if labels[label])
        able = sum(bool(item.x_alarm_eligible) for item in self.indicators)
        runs = "held-out runs" if self.locked else "runs, without a lock"
        letter = f"; {SUPPORTED}: {BY_THE_LETTER}" if self.by_the_letter else ""
        return (
            f"Results({cut(self.meta.run_id, 40)!r}, {self.summary.n_seeds} {runs}, "
            f"{len(self.indicators)} scores: {said}; "
            f"{able} may raise an alarm{letter})"
        )

    @property
    def by_the_letter(self) -> bool:
        """Whether a score is supported by a protocol that noise can pass."""
        return any(item.by_the_letter for item in self.indicators)

    def _repr_html_(self) -> str:
        """The scores that detect most, those that may raise an alarm first, for a notebook."""
        names = (
            "score",
            "label",
            "detection rate",
            "false-alarm rate",
            "lead time",
            "may raise an alarm",
        )
        rows = [
            (
                row["indicator"],
                self.indicator(row["indicator"]).shown_label,
                *map(percent, (row["detection_rate"], row["false_alarm_rate"])),
                steps(row["lead_median"]),
                yes_no(row["alarm_eligible"]),
            )
            for row in sorted(
                self._rows(),
                key=lambda row: (not row["alarm_eligible"], -(row["detection_rate"] or 0.0)),
            )
        ]
        return html_table(repr(self), names, rows[:10], len(rows), "scores: results.to_pandas()")

    def to_pandas(self) -> DataFrame:
        """A DataFrame with a row per score, in the order of the file.

        Columns have the names of the tables `first_alarm` and `gate_summary`, shares are of 1 and
        lead times in steps: what the first alarm is worth at `budget`, the primary budget of runs,
        and `chance`, the detection rate of the hardest chance baseline of the same cost. What does
        not exist is NaN, or None in a column of text.
        """
        from pandas import DataFrame

        rows = list(self._rows())
        return DataFrame(rows, columns=list(rows[0]) if rows else None)

    def _rows(self) -> Iterator[dict[str, Any]]:
        budget = self.primary_run_budget
        for item in self.indicators:
            first = item.x_first_alarm
            at = None if first is None or budget is None else first.at(budget)
            yield {
                "indicator": item.name,
                "group": item.group,
                "family": item.family,
                "label": item.label,
                "alarm_eligible": item.x_alarm_eligible,
                "budget": budget,
                **{path.replace("_interval.", "_"): follow(at, path) for path in _AT_BUDGET},
                "p_adjusted": follow(first, "p_adjusted"),
                "threshold": follow(at, "threshold"),
                "AUC": item.layer_A.auc,
                "AP": item.layer_A.ap,
                "sentence": item.x_sentence,
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
                "prereg_hash": design_fingerprint(design, meta=True) if design else None,
                "lock_hash": lock.hash if lock else None,
                "explore_fingerprint": lock.x_lock.explore_fingerprint if lock else None,
                "evaluation_fingerprint": fingerprint,
                "seed_of_draws": design.seed if design else None,
            },
            "x_sources": hub_sources(log.metadata),
        }
        return cls.parse({**content, **sections, **more}, where="results").with_checksums()


@contextlib.contextmanager
def _of_another_schema(path: str | Path, data: Mapping[str, Any]) -> Iterator[None]:
    """Say of a file that cannot be read which version of this package wrote it, if another did."""
    try:
        yield
    except InputError as error:
        writer = _writer(data)
        if writer is None or data.get(KEY) == SCHEMA.current:
            raise
        fault = str(error).removeprefix(f"{path}: ")
        raise InputError.at(
            path,
            "other_version",
            f"was written by gmb-hf {cut(writer, 20)} and cannot be read by {__version__} "
            f"({fault}); evaluate the runs again with gmb evaluate",
        ) from error


def _writer(data: Any) -> str | None:
    """The version of this package that wrote a file; None where it was somebody else's."""
    source = data.get("x_provenance") if isinstance(data, dict) else None
    version = source.get("package_version") if isinstance(source, dict) else None
    return version if isinstance(version, str) else None


def _loaded_versions() -> dict[str, str]:
    """Versions of the packages that took part: those that are loaded in this process."""
    found = {}
    for package in _PACKAGES:
        if {"scikit-learn": "sklearn"}.get(package, package) in sys.modules:
            with contextlib.suppress(PackageNotFoundError):
                found[package] = version(package)
    return found


def load_results(path: str | Path) -> tuple[Any, Any]:
    """Plain data of a results file, in YAML or JSON: as it stands there, and in today's schema.

    Raises:
        InputError: as `load_document`, or the file is of a later schema.
    """
    data = load_document(path)
    if not isinstance(data, dict):
        return data, data
    data = without_marks(data)
    return data, SCHEMA.upgraded(data, _version(data, str(path)))


def check_file(
    data: Mapping[str, Any], where: str, results: Results, copy: Path | None = None
) -> None:
    """Raise `InputError` if a file has a checksum that is not that of what stands there.

    `copy` is where an earlier version put a copy, which may tell what was changed.
    """

    def copied() -> Any:
        with contextlib.suppress(InputError):
            return None if copy is None else load_results(copy)[0]

    if results.x_checksum is not None:
        checksums = CHECKSUMS[_version(data, where)]
        checksums.check(data, where, typed=results.plain, copy=copied)


def _version(data: Mapping[str, Any], where: str) -> int:
    """The schema of a file; of somebody else's, whose `x_` keys may mean anything, today's."""
    writer = _writer(data)
    return SCHEMA.current if writer is None else SCHEMA.version(data, where=where, writer=writer)
