"""The design of an evaluation: everything that is fixed before a held-out run is looked at.

`Design` declares each field once: its place in the YAML document (the names of the v0.4 schema;
`x_` begins the name of an extension of this package), its default, its bounds and its help text.
The document and its template, the options of the commands, the keywords of the Python API and of
the `evaluate` modules, the presets and `gmb lock --explain` are views of these declarations.
Spec: GMB v0.4, sections 1 to 6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    PositiveFloat,
    field_validator,
    model_validator,
)

from gmb_hf.base.documents import Document, Many, at, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, first_of, repeated, unknown
from gmb_hf.base.escape import cut, html_table
from gmb_hf.design.candidates import Candidate, Positive, Share, Text
from gmb_hf.design.event_types import EVENT_TYPES, AlsoEvent, registered_event
from gmb_hf.design.strata import Stratum

# A word beside the bounds is the unit in which a field is typed.
Count = Annotated[int, Field(ge=0)]
MOST_STEPS = 10**15  # tokens may be counted
Steps = Annotated[Positive, Field(le=MOST_STEPS), "steps"]
StepsFromZero = Annotated[Count, Field(le=MOST_STEPS), "steps"]
Checkpoints = Annotated[Positive, Field(le=100_000), "checkpoints"]
Sweep = Field(max_length=100)
"""Of a list, each value of which is judged by itself."""
Rate = Annotated[float, Field(ge=0, le=1), "share"]


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    twice = repeated(sorted(seeds))
    if twice is not None:
        raise ValueError(f"seed {twice} is listed twice")
    return seeds


Seeds = Annotated[Many[int], AfterValidator(_each_once)]
UNDECLARED = "undeclared"
"""What is typed for a part of the boundary that shall stay open."""

Part = Literal["task", "model", "optimizer", "schedule", "seeds_explore", "seeds_eval"]
PARTS: tuple[Part, ...] = get_args(Part)
SEEDS: tuple[Part, ...] = ("seeds_explore", "seeds_eval")
"""Parts of the boundary that a lock declares; runs without seeds stand there by their names."""

EARLIER = {"x_warned_min": "x_detection_min"}
"""Keys of earlier versions, and what they are called today."""

SPECIFIED_TABLES = ("gate_summary", "utility_at_fpr", "robustness")
"""The tables of the specification (section 8)."""


*_FIRST, _LAST = EVENT_TYPES
of_jump = partial(at, only="E_jump")
of_plateau = partial(at, only="E_plateau")
of_onset = partial(at, only="E_onset")
of_regime = partial(at, only="E_regime")
"""Fields that belong to one type of event."""


class Design(Document):
    """The design of an evaluation, a preregistration of GMB v0.4.

    Beside its place, default and help text a field may declare:

    - `option`: how the commands spell it; its name unless given, None where it has no option;
    - `preset`: its key in the `benchmark` section of a run's config; its name unless given;
    - `only`: the type of event that it belongs to;
    - `flag`: the value that its option, which takes none, gives it;
    - `choices`: every value that it may take, where others can be registered;
    - `items`: what a list holds, for messages;
    - `common`: whether `--help` shows its option; the others are shown by `--help-all`.

    `gmb lock --explain` tells a field by its help text until `explain.py` has a sentence for it.
    """

    kind: ClassVar[str] = "prereg"
    sections: ClassVar[Mapping[str, str]] = {
        "meta": "Who fixed what, when.",
        "boundary": "The system that the verdict speaks about, and nothing beyond it.",
        "event": "What the alarm must detect.",
        "labels": "Positive and negative windows; everything else is ignored.",
        "labels.positive_window": "Where an alarm is early warning (spec 2.1).",
        "labels.negative_window": "Where an alarm is false (spec 2.2).",
        "operating_points": "The false positive rates that an alarm may cost (spec 4.2).",
        "decision_thresholds": "What counts as materially useful (spec 4.3 and 5).",
        "decision_thresholds.robustness": "The admissible family of layer D (spec 4.4).",
        "reporting": "What is shown, whatever comes out.",
    }

    benchmark: Literal["GMB"] = at("meta.benchmark", "GMB")
    """always GMB"""
    version: Literal["v0.4"] = at("meta.version", "v0.4")
    """the schema's version"""
    date_locked: Text = at("meta.date_locked", None)
    """YYYY-MM-DD, the day this was fixed"""
    researcher: Text = at("meta.researcher", None)
    """who answers for it"""
    commit_hash: Text = at("meta.commit_hash", None)
    """the code that trained the runs"""

    task: Text = at("boundary.task", None)
    """what is learned"""
    model: Text = at("boundary.model", None)
    """architecture, width and depth"""
    optimizer: Text = at("boundary.optimizer", None)
    """optimizer and regularization"""
    schedule: Text = at("boundary.schedule", None)
    """steps, batch and learning-rate schedule"""
    cadence: Steps | None = at("boundary.checkpoint_every_steps", None, example=10)
    """steps between two checkpoints"""
    seeds_explore: Seeds = at("boundary.seeds_explore", ())
    """free search happens on these seeds only"""
    seeds_eval: Seeds = at("boundary.seeds_eval", ())
    """held out: looked at once, by evaluate"""
    runs_explore: Many[str] = at("boundary.x_runs_explore", (), option=None)
    """names of the runs to search on, where they have no seeds"""
    runs_eval: Many[str] = at("boundary.x_runs_eval", (), option=None)
    """names of the held-out runs, where they have no seeds"""
    undeclared: Many[Part] = at("boundary.x_undeclared", (), flag=PARTS)
    """what of task, model, optimizer, schedule and the seeds shall stay open; results repeat it"""

    event_type: Annotated[str, BeforeValidator(registered_event)] = at(
        "event.type",
        "E_jump",
        f"{', '.join(_FIRST)} or {_LAST}",
        option="event",
        preset="event",
        choices=EVENT_TYPES,
        common=True,
    )
    metric: str = at("event.metric", "test_acc", common=True)
    """the observable that jumps or settles"""
    direction: Literal["rising", "falling"] = of_jump(
        "event.x_direction", "rising", option="falling", flag="falling", common=True
    )
    """falling: the event is a drop of the metric, e.g. of a loss; else rising"""
    w_event: Steps = of_jump("event.window_W_event", 50, option="window", preset="jump_window")
    """steps over which it jumps; a multiple of the cadence"""
    jump_threshold: PositiveFloat = of_jump(
        "event.jump_threshold", 0.15, option="jump", common=True
    )
    """rise (falling: drop) of the metric that makes an event"""
    earliest_rule: Literal[True] = at("event.earliest_rule", True)
    """the first time counts (spec 1.2)"""
    event_t_min: StepsFromZero | None = at(
        "event.x_event_t_min", None, example=0, option="event-after"
    )
    """no event is registered before this step"""
    theta_floor: float | None = of_jump(
        "event.x_theta_floor", None, example=0.5, option="floor", preset="event_floor"
    )
    """level that the metric must reach after the jump"""
    require_new_max: bool = of_jump(
        "event.x_require_new_max", False, option="new-max", preset="event_new_max"
    )
    """true: a recovery from a dip is no event; falling: from a spike"""
    plateau_checkpoints: Checkpoints | None = of_plateau(
        "event.x_plateau_checkpoints", None, example=5
    )
    """E_plateau: consecutive checkpoints needed"""
    plateau_threshold: FiniteFloat | None = of_plateau(
        "event.x_plateau_threshold", None, example=0.95, option="plateau-level"
    )
    """E_plateau: level that they must hold"""
    plateau_regression: Annotated[Count, Field(le=100_000), "checkpoints"] | None = of_plateau(
        "event.x_plateau_regression", None, example=0
    )
    """E_plateau: so many in a row may lie below; null: 0"""
    chance: Share | None = of_onset("event.x_chance", None, example=0.034)
    """E_onset: the metric of a guess, e.g. 1/p of p answers; null: what the logs say"""
    chance_multiple: Annotated[float, Field(gt=1, le=1e6)] | None = of_onset(
        "event.x_chance_multiple", None, example=3.0
    )
    """E_onset: the metric has left chance at so many times it; null: 3"""
    regime_quantile: Share | None = of_regime(
        "event.x_regime_quantile", None, example=0.99, option="quantile"
    )
    """E_regime: a signal moves at this quantile; null: 0.99"""
    regime_radius: Steps | None = of_regime(
        "event.x_regime_radius", None, example=20, option="radius"
    )
    """E_regime: steps from t to the signals, >= the cadence"""
    regime_tolerance: StepsFromZero | None = of_regime(
        "event.x_regime_tolerance", None, example=15, option="tolerance"
    )
    """E_regime: steps between both estimates; null: 15"""

    horizon: Steps = at("labels.positive_window.horizon_steps", ..., example=2000, common=True)
    """required: 0 < t* - t <= this is positive"""
    lead_time_target: StepsFromZero | None = at(
        "labels.positive_window.lead_time_target", None, option="lead-target"
    )
    """steps of warning that count as success; null: a quarter of the horizon"""
    safe_gap: Steps = at("labels.negative_window.safe_gap_steps", ..., example=4000, common=True)
    """required: an alarm so many steps before t*, or more, is false; larger than the horizon"""

    fpr_targets: Annotated[Many[Share], Sweep] = at(
        "operating_points.fpr_targets", (0.01, 0.05, 0.10), option="fpr", items="rates"
    )
    """target rates"""
    fpr_eps: Annotated[float, Field(ge=0, lt=1), "share"] = at(
        "operating_points.fpr_eps", 0.01, option="eps"
    )
    """tolerance around a target"""
    fpr_floor_max: Rate = at("operating_points.fpr_floor_max", 0.20)
    """the lowest reachable rate must not exceed this"""
    min_targets_ok: Positive = at("operating_points.min_targets_ok", 2)
    """how many targets must be met"""

    run_budgets: Annotated[Many[Share], Sweep] = at(
        "x_run_budgets", (0.05, 0.10, 0.20), items="shares of runs"
    )
    """shares of runs that may have a false alarm"""
    primary_run_budget: Share = at("x_primary_run_budget", 0.05, option="run-budget", common=True)
    """the share that decides what may act"""
    calibration: Literal["marginal", "conditional"] = at("x_calibration", "marginal")
    """marginal: the expected share keeps the budget; conditional: its 90% bound does"""
    detection_min: Rate = at("x_detection_min", 0.30)
    """least detection rate: share of events with a first alarm that is not false"""
    also_events: Many[AlsoEvent] = at("x_also_events", (), option="also-event", example=())
    """other events that the same scores are shown on, e.g. {type: E_jump}"""

    candidates: Many[Candidate] = at("candidates", (), option=None)

    coverage_min: Rate = at("decision_thresholds.coverage_at_0_05_min", 0.30)
    """least coverage at the primary operating point"""
    lead_time_median_min: Annotated[NonNegativeFloat, "steps"] | None = at(
        "decision_thresholds.lead_time_median_min", None, option="lead-min"
    )
    """least median lead time, in steps; null: one checkpoint of the logs"""
    window_sweep: Annotated[Many[Steps], Sweep] = at(
        "decision_thresholds.robustness.window_sweep", (100, 150, 200, 250)
    )
    """values of the candidate's own window, in steps"""
    max_label_flip_rate: Rate = at("decision_thresholds.robustness.max_label_flip_rate", 0.20)
    """share of the family that may get another label"""

    required_tables: Many[str] = at("reporting.required_tables", SPECIFIED_TABLES)
    """spec section 8"""
    report_all_failures: Literal[True] = at("reporting.report_all_failures", True)
    """always true (spec 6.3)"""

    protocol: Literal["strict", "v0.4"] = at("x_protocol", "strict")
    """strict: locked conformal thresholds and chance nulls; or v0.4"""
    burn_in: StepsFromZero = at("x_burn_in", 0)
    """windows before this step are ignored"""
    primary_fpr: Share = at("x_primary_fpr", 0.05)
    """the operating point that the verdict is about"""
    event_count_min: Annotated[Positive, Field(le=1_000_000), "events"] = at(
        "x_event_count_min", 30, option="events-min"
    )
    """fewer events: INCONCLUSIVE (spec 7)"""
    null_draws: Annotated[Positive, Field(le=1_000_000)] = at("x_null_draws", 2000)
    """draws of each chance null"""
    bootstrap_draws: Annotated[Positive, Field(le=100_000)] = at("x_bootstrap_draws", 2000)
    """draws of the run-cluster bootstrap"""
    alpha: Share = at("x_alpha", 0.05)
    """level of the tests, Holm-adjusted over candidates"""
    health_alpha: Share | None = at("x_health_alpha", None)
    """share of runs in which a monitor may abstain for nothing; null: x_alpha"""
    seed: Count = at("x_seed", 0)
    """seed of all draws"""
    smoothing_sweep: Annotated[Many[Checkpoints], Sweep] = at("x_smoothing_sweep", (1, 3, 5))
    """layer D: trailing means over so many checkpoints"""
    run_groups: Annotated[int, Field(ge=2, le=10_000)] = at("x_run_groups", 5)
    """layer D: groups of runs, each left out once"""
    refractory: Steps | None = at("x_refractory_steps", None)
    """alarms closer than this are one episode; null: the horizon"""
    nan: Literal["error", "ignore"] = at("x_nan", "error")
    """NaN scores in labelled windows: error, or ignore"""
    strata: Many[Stratum] = at("x_strata", (), example=())
    """parts of the runs judged as well, e.g. {name: late, where: event_step > 1000}"""
    looks: Annotated[Positive, Field(le=1000)] = at("x_looks", 1)
    """how often held-out runs may be judged, runs added in between; splits alpha"""
    max_eval_seeds: Annotated[Positive, "runs"] | None = at("x_max_eval_seeds", None, example=400)
    """most held-out runs over all looks"""

    @field_validator("required_tables")
    @classmethod
    def _known_tables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise ValueError(f"must name at least one table: {', '.join(SPECIFIED_TABLES)}")
        for name in names:
            if name not in SPECIFIED_TABLES:
                raise ValueError(str(unknown("table", name, SPECIFIED_TABLES)))
        return names

    @model_validator(mode="before")
    @classmethod
    def _published_regime(cls, data: Any) -> Any:
        # What is frozen must stand in the file, not in the code that reads it.
        kind = EVENT_TYPES.get(str(data.get("event_type"))) if isinstance(data, dict) else None
        if kind is None:
            return data
        return {**data, **{k: v for k, v in kind.published.items() if data.get(k) is None}}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        required = EVENT_TYPES[self.event_type].required
        if any(getattr(self, name) is None for name in required):
            keys = " and ".join(self.places()[name].rpartition(".")[2] for name in required)
            raise ValueError(f"event: {self.event_type} needs {keys}")
        length = self.plateau_checkpoints
        if length is not None and (self.plateau_regression or 0) >= length:
            raise ValueError(
                f"event: x_plateau_regression {self.plateau_regression} must be less than "
                f"x_plateau_checkpoints {length}"
            )
        if self.event_type == "E_onset" and self.onset_level > 1:
            raise ValueError(
                f"event: x_chance_multiple {self.chance_multiple:g} times x_chance "
                f"{self.chance:g} is {self.onset_level:g}, which no accuracy reaches; lower it"
            )
        targets = self.fpr_targets
        if len(set(targets)) != len(targets) or not targets:
            raise ValueError("operating_points: fpr_targets must name at least one rate, each once")
        if self.min_targets_ok > len(targets):
            raise ValueError(
                f"operating_points: min_targets_ok is {self.min_targets_ok}, but there are only "
                f"{len(targets)} fpr_targets"
            )
        twice = repeated(candidate.name for candidate in self.candidates)
        if twice is not None:
            raise ValueError(f"candidates: the name {twice!r} is used twice")
        combined = {item.name: item.x_ensemble for item in self.candidates if item.x_ensemble}
        for name, ensemble in combined.items():
            nested = [member.name for member in ensemble.members if member.name in combined]
            if nested:
                raise ValueError(
                    f"candidates: {name!r} has the member {nested[0]!r}, which is itself an "
                    "ensemble; list its members instead"
                )
        if self.primary_fpr not in targets:
            raise ValueError(
                f"x_primary_fpr {self.primary_fpr:g} is not among operating_points.fpr_targets "
                f"{list(targets)}; add it there, or choose one of them"
            )
        if len(set(self.run_budgets)) != len(self.run_budgets) or not self.run_budgets:
            raise ValueError("x_run_budgets must name at least one share of runs, each once")
        if self.primary_run_budget not in self.run_budgets:
            raise ValueError(
                f"x_primary_run_budget {self.primary_run_budget:g} is not among x_run_budgets "
                f"{list(self.run_budgets)}; add it there, or choose one of them"
            )
        twice = repeated(name for name, _ in self.other_events())
        if twice is not None:
            raise ValueError(f"x_also_events: {twice} is listed twice")
        if not self.smoothing_sweep:
            raise ValueError("x_smoothing_sweep must name at least one length; 1 is no smoothing")
        both = set(self.runs_explore) & set(self.runs_eval)
        if both:
            raise ValueError(
                f"boundary: {first_of(sorted(both))} in both x_runs_explore and x_runs_eval; a "
                "threshold must not be judged on runs that it was found on"
            )
        twice = repeated(stratum.name for stratum in self.strata)
        if twice is not None:
            raise ValueError(f"x_strata: the name {twice!r} is used twice")
        planned, most = len(self.seeds_eval), self.max_eval_seeds
        if most is not None and planned > most:
            raise ValueError(
                f"x_max_eval_seeds is {most}, but boundary.seeds_eval lists {planned} seeds; "
                "raise the one, or shorten the other"
            )
        if self.looks > 1 and most is None and not planned:
            raise ValueError(
                f"x_looks is {self.looks}, but nothing bounds the runs that may be added; set "
                "x_max_eval_seeds, or list boundary.seeds_eval"
            )
        return self

    @classmethod
    def other_event(cls, name: str, event_type: str) -> str | None:
        """The type of event that a field belongs to, where events of this type pass it over."""
        owner = cls.views(name).get("only", event_type)
        return None if owner == event_type or name in EVENT_TYPES[event_type].fields else owner

    def _repr_html_(self) -> str:
        """What is asked, for a notebook."""
        rows = (
            ("task", self.task),
            ("model", self.model),
            ("event", self.event_name),
            ("metric", self.metric),
            ("protocol", self.protocol),
            (
                "horizon, safe gap, burn-in",
                f"{self.horizon}, {self.safe_gap}, {self.burn_in} steps",
            ),
            ("scores", ", ".join(one.name for one in self.candidates) or "not named"),
            ("budgets, share of runs", ", ".join(f"{one:g}" for one in self.run_budgets)),
            ("held-out seeds", len(self.seeds_eval) or "not named"),
        )
        return html_table(f"Design({cut(self.task or '', 40)!r})", (), rows, len(rows), "fields")

    @classmethod
    def minimal(cls, *, horizon: int, safe_gap: int, **fields: Any) -> Self:
        """A design from its two required lengths (steps) and any other fields by their names.

        Raises:
            InputError: a field is unknown (the nearest is named) or out of range.

        >>> Design.minimal(horizon=200, safe_gap=400, burn_in=200).burn_in
        200
        """
        return cls.of({"horizon": horizon, "safe_gap": safe_gap, **fields})

    @classmethod
    def parse(cls, data: Any, *, where: str) -> Self:
        """Read a nested document, where seeds may be `undeclared` too; see `Section.parse`."""
        if isinstance(data, dict) and not data.keys().isdisjoint(EARLIER):
            data = {EARLIER.get(key, key): value for key, value in data.items()}
        boundary = data.get("boundary") if isinstance(data, dict) else None
        if isinstance(boundary, dict):
            still = [name for name in SEEDS if boundary.get(name) == UNDECLARED]
            if still:
                parts = [*(boundary.get("x_undeclared") or ()), *still]
                boundary = {**boundary, **{name: [] for name in still}, "x_undeclared": parts}
            data = {**data, "boundary": boundary}
        return super().parse(data, where=where)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a preregistration; an `InputError` names the file and the path of what is wrong."""
        data = load_yaml(path)
        if isinstance(data, dict) and "x_lock" in data:
            raise InputError(
                f"{path}: is a lock, whose design is fixed; judge by it with gmb evaluate --lock, "
                "or start from the preregistration that it was made of"
            )
        return cls.parse(data, where=str(path))

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically."""
        return write_yaml(path, self.plain(), heading="GMB preregistration, schema v0.4")

    @classmethod
    def reworded(cls, message: str, spelled: Callable[[str, str | None], str | None]) -> str:
        """A message about fields by their places in the document, in the words of another surface.

        Args:
            message: of an error, or of the linter, which names some fields without their section.
            spelled: gives, of a field and of a value that is mentioned with it (or None), how the
                surface calls it, or sets it to that value; None where it has no word for it.
        """
        message = message.removeprefix(f"{cls.kind}: ")
        message = re.sub(
            r"^event: (E_\w+)", lambda found: spelled("event_type", found[1]) or found[0], message
        )
        message = re.sub(rf"^({'|'.join(cls.sections)}): ", "", message)
        names = {place: name for name, place in cls.places().items()}
        known = {place.rpartition(".")[2]: name for place, name in names.items()} | names
        # A bare word such as "model" is not taken for the field.
        words = sorted((word for word in known if re.search("[._]", word)), key=len, reverse=True)
        values = r"(?:: (true|ignore|error|falling|E_plateau)\b)?"
        pattern = rf"(?<![\w.-])({'|'.join(map(re.escape, words))})(?!\w){values}"
        return re.sub(
            pattern, lambda found: spelled(known[found[1]], found[2]) or found[0], message
        )

    @classmethod
    def template(cls) -> str:
        """The YAML text of a new preregistration, a comment beside each field."""
        return _HEAD + super().template()

    def commented(self) -> str:
        """The YAML text of this preregistration, a comment beside each field."""
        return _HEAD + super().commented()

    @property
    def n_eval(self) -> int | None:
        """How many runs are held out by their seeds or names; None where neither is declared."""
        return len(self.seeds_eval) or len(self.runs_eval) or None

    @property
    def scope(self) -> str:
        """A sentence that names what of the boundary is undeclared, "" if nothing is."""
        parts = [
            part for part in PARTS if part in self.undeclared or getattr(self, part) == UNDECLARED
        ]
        return f"Holds for: {', '.join(f'{part} {UNDECLARED}' for part in parts)}." if parts else ""

    @property
    def event_name(self) -> str:
        """The event in a few words that tell it from others, such as "E_plateau 0.5 x 5"."""
        details = {
            "E_jump": f" {self.jump_threshold:g} in {self.w_event}",
            "E_plateau": f" {self.plateau_threshold or 0:g} x {self.plateau_checkpoints}",
            "E_onset": f" {self.chance_multiple or 0:g} x chance",
        }
        return self.event_type + details.get(self.event_type, "")

    def other_events(self) -> Iterator[tuple[str, Self]]:
        """The name of each of `also_events`, and this design with that event instead.

        The event itself, which is shown in any case, is passed over. Of several that would have one
        name each further one says what differs: "E_jump 0.2 in 50, metric val_acc".

        Raises:
            ValueError: a key is unknown in the section `event`, or out of range.
        """
        if not self.also_events:
            return
        plain, own = self.plain(), self.section("event")
        fields = [name for name, place in self.places().items() if place.startswith("event.")]
        named = {self.event_name: own}
        for number, one in enumerate(self.also_events):
            asked = {"labels": plain["labels"], "event": {**plain["event"], **one.keys}}
            try:
                read = self.parse(asked, where=f"x_also_events[{number}]")
            except InputError as error:
                raise ValueError(str(error)) from None
            section, name = read.section("event"), read.event_name
            if section == own:
                continue
            first = named.setdefault(name, section)
            differ = {key: value for key, value in section.items() if value != first[key]}
            for key, value in differ.items():
                name += f", {key} {value if isinstance(value, str) else json.dumps(value)}"
            event: dict[str, Any] = {field: getattr(read, field) for field in fields}
            yield name, self.model_copy(update={"also_events": (), **event})

    @property
    def alpha_per_look(self) -> float:
        """Level of the tests at each look: alpha is split evenly (Bonferroni) over the looks."""
        return self.alpha / self.looks

    @property
    def abstention_rate(self) -> float:
        """Share of runs in which a monitor may abstain though nothing is wrong."""
        return self.health_alpha or self.alpha

    @property
    def onset_level(self) -> float:
        """E_onset: the level at which the metric has left chance; 0 while chance is not known."""
        return (self.chance or 0.0) * (self.chance_multiple or 0.0)

    @property
    def falling(self) -> bool:
        """Whether drops of the metric are the events."""
        return self.direction == "falling"

    @property
    def lead_least(self) -> float:
        """The least median lead time; one checkpoint unless set (`prepare` knows the cadence)."""
        least = self.lead_time_median_min
        return float(self.cadence or 1) if least is None else least

    @property
    def lead_target(self) -> int:
        """Steps of warning that count as success; a quarter of the horizon unless set."""
        target = self.lead_time_target
        return max(1, self.horizon // 4) if target is None else target

    @property
    def episode_gap(self) -> int:
        """Steps within which alarms belong to one episode; the horizon unless set."""
        return self.refractory or self.horizon


Prereg = Design
"""Its name in earlier versions."""


_HEAD = """\
# GMB preregistration, schema v0.4: fix it before a held-out run is looked at.
# Fields that begin with x_ are extensions of gmb-hf; everything has a default but
# labels.positive_window.horizon_steps and labels.negative_window.safe_gap_steps.
"""
