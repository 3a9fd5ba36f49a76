"""The sections of results.yaml beside its indicators, as records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, FiniteFloat

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.runs.runlog import RunLog


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
            happened = not math.isnan(step)
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

    @property
    def sentence(self) -> str:
        """When the lock was published, and where."""
        when = "before evaluation" if self.before_evaluation else "after a look was taken"
        commits = f"lock {self.lock_commit[:12]}, look {self.look_commit[:12]}"
        return f"Published {when}: {self.repo}, {commits}."


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
