"""results.yaml: assembled from the layers, written atomically, read back and checked.

The same input gives the same bytes. `Results.json_schema()` is shipped as
`results_schema_v0.4.json` for readers in other languages.
"""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from gmb_hf._version import __version__
from gmb_hf.benchmark.layer_records import ResultSection
from gmb_hf.benchmark.result_records import (
    BoundaryRecord,
    CalibrationRecord,
    EventRecord,
    IndicatorRecord,
    MetaRecord,
    ProvenanceRecord,
    SourceRecord,
    SummaryRecord,
    TablesRecord,
)
from gmb_hf.benchmark.schema_check import Checked, check
from gmb_hf.preregistration.documents import (
    Many,
    canonical_hash,
    json_like,
    load_document,
    write_yaml,
)
from gmb_hf.preregistration.lock import Lock
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError, repeated

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
    def prereg(self) -> Prereg | None:
        """The preregistration that is stored with the results, if one is."""
        if self.x_prereg is None:
            return None
        return Prereg.parse(self.x_prereg, where="results: x_prereg")

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
        prereg: Prereg,
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
        task = prereg.boundary.task
        stem = (task or "runs").replace(" ", "_")
        return cls.parse(
            {
                "meta": {
                    "run_id": run_id or f"{stem}_{(evaluation_fingerprint or '0' * 8)[:8]}",
                    "date": date or datetime.datetime.now(datetime.UTC).date().isoformat(),
                    "commit_hash": prereg.meta.commit_hash,
                    "prereg_path": prereg_path,
                },
                "boundary": {
                    "task": task,
                    "model": prereg.boundary.model,
                    "seeds_eval": [
                        run if seed is None else seed for run, seed in zip(runs, seeds, strict=True)
                    ],
                },
                "event": {
                    "type": prereg.event.type,
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
                    "x_looks": prereg.x_looks,
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
    prereg: Prereg | None, lock: Lock | None, evaluation_fingerprint: str | None
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
        "seed_of_draws": prereg.x_seed if prereg else None,
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
