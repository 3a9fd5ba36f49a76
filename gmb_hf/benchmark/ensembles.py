"""Ensembles: several scores as one, by a regression or by trees, fitted on explore runs.

Runs are the units: each run weighs the same in each class, spread evenly over its windows of that
class, so that a long run does not decide alone; windows between the classes are left out. What a
fit can be told, a penalty or how many trees, is chosen by cross-validation in which a run is never
on both sides, since windows of one run depend on each other.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import EVENTS
from gmb_hf.benchmark.prepare import LABEL_FREE, Entry, Prepared, prepare
from gmb_hf.benchmark.scores import Scores, score_windows
from gmb_hf.core.thresholds import in_words, runs_needed, runs_to_promise
from gmb_hf.design.candidates import ENSEMBLE, LEARNED_METRIC, Ensemble, Score
from gmb_hf.design.design import Design
from gmb_hf.design.lint import Finding, warning
from gmb_hf.design.lock import LockedHealth
from gmb_hf.design.locked_ensembles import LockedEnsemble, LockedMember, LockedTree, feature_name
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Indicator, Kind
from gmb_hf.indicators.ensemble import boosted, external, features_of, fitted_ensemble, squashed
from gmb_hf.runs.metadata import COLUMN_FAMILIES, EXTERNAL
from gmb_hf.runs.runlog import RunLog

Floats = NDArray[np.float64]
_TOLERANCE = 1e-10
_MAX_STEPS = 200
_DIGITS = 10
_NORMAL_QUARTILES = 1.3489795  # between the quartiles of a normal score of sd 1
_BINS = 64
_FEW_FIT_RUNS = 30
_LEAST_SPREAD = 1e-100  # less is none: what is divided by it must stay finite

LARGEST = 1e100
"""The largest score, either way, that can be fitted: its square must be finite."""


@dataclass(frozen=True, eq=False)
class LabelledWindows:
    """Labelled windows of some runs: M features of the members, within +-`LARGEST`.

    `features` is float64 [n, M], `positive` bool [n], `run` int64 [n], which run each is of.
    """

    features: Floats
    positive: NDArray[np.bool_]
    run: NDArray[np.int64]

    def select(self, rows: NDArray[np.int64]) -> LabelledWindows:
        """These rows only."""
        return LabelledWindows(self.features[rows], self.positive[rows], self.run[rows])

    def sorted(self) -> LabelledWindows:
        """The same rows by run, then by what they hold: sums depend on the order of their terms."""
        return self.select(np.lexsort((self.positive, *self.features.T, self.run)))

    @property
    def weights(self) -> Floats:
        """Of each window, float64 [n]: those of a run and class sum up to the same; all to 1."""
        _, group = np.unique(2 * self.run + self.positive, return_inverse=True)
        weights = 1 / np.bincount(group)[group]
        return np.asarray(weights / weights.sum())

    @property
    def runs_of_both_classes(self) -> NDArray[np.int64]:
        """Runs that have positive and negative windows, ascending."""
        return np.intersect1d(self.run[self.positive], self.run[~self.positive])

    def folds(self, count: int) -> NDArray[np.int64]:
        """The fold of each window, int64 [n]; those of a run are in one.

        Runs of both classes are dealt out first: with `count` of them or more, both classes are
        left whichever fold is taken away.
        """
        runs = np.unique(self.run)
        first = np.argsort(~np.isin(runs, self.runs_of_both_classes), kind="stable")
        fold = np.empty(len(runs), dtype=np.int64)
        fold[first] = np.arange(len(runs)) % count
        return np.asarray(fold[np.searchsorted(runs, self.run)])


@dataclass(frozen=True, eq=False)
class LogOdds:
    """A fitted combination: intercept + sum of coefficient * asinh((x - center) / scale)."""

    center: Floats
    scale: Floats
    coefficients: Floats
    intercept: float

    def __call__(self, features: Floats) -> Floats:
        """The log-odds of rows [..., M]."""
        scores = squashed(features, self.center, self.scale)
        return np.asarray(self.intercept + scores @ self.coefficients)


class Boosted:
    """A fitted sum of trees."""

    def __init__(self, intercept: float, trees: Sequence[LockedTree]) -> None:
        self.intercept, self.trees = intercept, tuple(trees)
        self._log_odds = boosted(intercept, self.trees)

    def __call__(self, features: Floats) -> Floats:
        """The log-odds of rows [..., M]."""
        return self._log_odds(features)


Setting = TypeVar("Setting")


@dataclass(frozen=True, eq=False)
class Chosen(Generic[Setting]):
    """A combination, fitted on all rows with the setting that cross-validation prefers.

    It is the first of those with the least loss; `losses` are in nats a window.
    """

    log_odds: LogOdds | Boosted
    setting: Setting
    losses: Mapping[Setting, float]


def choose(
    rows: LabelledWindows,
    fit: Callable[[LabelledWindows, Sequence[Setting]], Mapping[Setting, LogOdds | Boosted]],
    settings: Sequence[Setting],
    folds: int | NDArray[np.int64],
) -> Chosen[Setting]:
    """Fit with each setting, leaving groups of runs out in turn, and take the best.

    `folds` is how many groups the runs are dealt into, of which at least as many have windows of
    both classes; or the group of each run, int64 [R], counted from 0. The settings that bind most
    come first. The order of the rows changes nothing.
    """
    rows = rows.sorted()
    losses, weights = dict.fromkeys(settings, 0.0), rows.weights
    fold = rows.folds(folds) if isinstance(folds, int) else folds[rows.run]
    for number in np.unique(fold):
        inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        for setting, fitted in fit(rows.select(inside), settings).items():
            log_odds = fitted(rows.features[outside])
            signed = np.where(rows.positive[outside], -log_odds, log_odds)
            losses[setting] += float(np.logaddexp(0, signed) @ weights[outside])
    losses = {setting: _rounded(loss) for setting, loss in losses.items()}
    best = min(settings, key=losses.__getitem__)
    return Chosen(fit(rows, [best])[best], best, losses)


def fit_log_odds(rows: LabelledWindows, penalties: Sequence[float]) -> dict[float, LogOdds]:
    """The regression with each penalty; rows of both classes are needed.

    A penalty is L2, on the mean log loss: loss + penalty / 2 * |coefficients|^2. The coefficients
    are rounded to 10 digits, which the order of a sum does not reach.
    """
    from sklearn.linear_model import LogisticRegression

    weights = rows.weights
    center, scale = standard_units(rows.features, weights)
    features = squashed(rows.features, center, scale)
    found = {}
    # From one penalty to the next it goes on where it stands, which takes a third of the steps.
    model = LogisticRegression(
        solver="newton-cholesky", tol=_TOLERANCE, max_iter=_MAX_STEPS, warm_start=True
    )
    for penalty in penalties:
        # scikit-learn's C is the inverse of a penalty on the sum of losses: weights sum to 1.
        model.set_params(C=1 / penalty)
        model.fit(features, rows.positive, sample_weight=weights)
        coefficients = np.array([_rounded(x) for x in model.coef_[0]])
        found[penalty] = LogOdds(center, scale, coefficients, _rounded(model.intercept_[0]))
    return found


def fit_trees(
    rows: LabelledWindows, settings: Sequence[tuple[int, int]], learning_rate: float
) -> dict[tuple[int, int], Boosted]:
    """The trees of each setting, most leaves and number; rows of both classes are needed.

    Thresholds are among weighted quantiles of a feature, rounded to 10 digits.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    edges, codes = binned(rows)
    found: dict[tuple[int, int], Boosted] = {}
    for leaves, most in dict(sorted(settings)).items():
        model = HistGradientBoostingClassifier(
            learning_rate=learning_rate,
            max_iter=most,
            max_leaf_nodes=leaves,
            early_stopping=False,
            random_state=0,
        )
        with threadpool_limits(1):  # the order of a sum would depend on the number of threads
            model.fit(codes, rows.positive, sample_weight=rows.weights * len(codes))
        trees = [locked_tree(one.nodes, edges) for (one,) in model._predictors]
        intercept = float(model._baseline_prediction[0, 0])
        numbers = [number for of, number in settings if of == leaves]
        found |= {(leaves, number): Boosted(intercept, trees[:number]) for number in numbers}
    return found


def binned(rows: LabelledWindows) -> tuple[list[Floats], Floats]:
    """Edges among each feature's values, ascending, and each window's bins, float64 [n, M].

    A value is in bin k up to and with edge k. (scikit-learn, left to find weighted quantiles by
    itself, takes a hundred times as long.)
    """
    levels = np.arange(1, _BINS) / _BINS
    quantiles = np.quantile(
        rows.features, levels, axis=0, weights=rows.weights, method="inverted_cdf"
    )
    edges = [np.unique([_rounded(x) for x in column]) for column in quantiles.T]
    places = [np.searchsorted(*pair) for pair in zip(edges, rows.features.T, strict=True)]
    return edges, np.stack(places, axis=1).astype(np.float64)


def locked_tree(nodes: NDArray[Any], edges: Sequence[Floats]) -> LockedTree:
    """A tree of scikit-learn's, whose parents come before their children, on bins with edges."""
    leaf = nodes["is_leaf"].astype(bool)
    number = np.where(leaf, -np.cumsum(leaf), np.cumsum(~leaf) - 1)
    splits = nodes[~leaf]
    last = zip(splits["feature_idx"], splits["num_threshold"].astype(int), strict=True)
    return LockedTree(
        feature=splits["feature_idx"].tolist(),
        threshold=tuple(float(edges[feature][place]) for feature, place in last),
        left=number[splits["left"]].tolist(),
        right=number[splits["right"]].tolist(),
        value=nodes["value"][leaf].tolist(),
    )


def standard_units(features: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Median and spread of each column, float64 [M] each.

    The spread is that between the quartiles, in units of a normal sd; the sd itself of a column
    half of whose values are one; and 1 of a column that is constant, or moves by less than 1e-100.
    """
    quartiles = np.quantile(
        features, (0.25, 0.5, 0.75), axis=0, weights=weights, method="inverted_cdf"
    )
    spread = (quartiles[2] - quartiles[0]) / _NORMAL_QUARTILES
    sd = np.sqrt(weights @ (features - weights @ features) ** 2)
    varied = np.ptp(features, axis=0) > 0  # the sd of equal numbers need not be 0 exactly
    other = np.where(varied & (sd > _LEAST_SPREAD), sd, 1.0)
    scale = np.where(spread > _LEAST_SPREAD, spread, other)
    return quartiles[1], scale


def _setting(setting: float | tuple[int, int]) -> str:
    """A setting as a key of the lock: `0.01`, `100 trees of 4 leaves`."""
    if isinstance(setting, tuple):
        return f"{setting[1]} trees of {setting[0]} leaves"
    return repr(float(setting))


def setting_of(formula: LockedEnsemble) -> Any:
    """The setting of a frozen combination as its fit takes it: a penalty, or leaves and trees."""
    if formula.method == "logistic":
        return float(formula.setting)
    trees, leaves = (int(word) for word in formula.setting.split() if word.isdigit())
    return leaves, trees


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


# Which explore runs an ensemble is fitted on, the fit, and the others that calibrate.


_CROSS_FIT_FOLDS = 5


def split_runs(runs: Sequence[str], design: Ensemble) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The runs to fit on and the runs to calibrate on, each in the order given.

    It depends on the seed and the runs' names alone. A split that looked at what the runs did, to
    have as many events on both sides, say, would leave the calibrating runs not exchangeable with
    held-out ones.
    """
    dealt = sorted(runs, key=lambda run: _lot(run, design.split_seed))
    fit = set(dealt[: round(design.fit_share * len(dealt))])
    return tuple(run for run in runs if run in fit), tuple(run for run in runs if run not in fit)


def _lot(run: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{run}".encode()).hexdigest()


class MemberScores:
    """The features of an ensemble's members on the runs that the event decides."""

    def __init__(self, entry: Entry, scores: Sequence[Scores], prereg: Design) -> None:
        assert entry.ensemble is not None
        self.entry, self.design = entry, entry.ensemble
        names = self.design.features
        self.scores = [
            dataclasses.replace(one, name=feature_name(one.name, name), values=values)
            for one in scores
            for name, values in zip(names, features_of(one.values, names), strict=True)
        ]
        self._prereg = prereg

    @classmethod
    def of(cls, entry: Entry, prepared: Prepared) -> MemberScores:
        """The scores of one ensemble among what is prepared."""
        return cls(entry, list(map(prepared.scores, entry.members)), prepared.design)

    def fit(self, runs: Sequence[str]) -> Chosen[Any]:
        """The combination that these runs make.

        Raises:
            InputError: fewer of them have windows of both classes than there are folds, or a
                member has no score in a labelled window, or one too large to be fitted.
        """
        design = self.design
        rows = self.rows(runs)
        both = len(rows.runs_of_both_classes)
        if both < design.folds:
            raise InputError(
                f"candidate {self.entry.name!r}: {both} of its {len(runs)} fitting runs have "
                f"positive and negative windows, fewer than its {design.folds} folds; train "
                "more explore runs, take the ensemble out or, to lock it, raise fit_share"
            )
        if design.method == "logistic":
            penalties = sorted(set(design.penalties), reverse=True)
            return choose(rows, fit_log_odds, penalties, design.folds)
        sizes = [(leaves, trees) for leaves in design.leaves for trees in design.trees]
        fit = partial(fit_trees, learning_rate=design.learning_rate)
        return choose(rows, fit, sorted(set(sizes)), design.folds)

    def locked(self, runs: Sequence[str], calibrate: Sequence[str]) -> LockedEnsemble:
        """What a lock records of the combination that these runs make.

        `n_calibration_runs` counts the runs of `calibrate` with negative windows.
        """
        others = self.rows(calibrate)
        return frozen_formula(
            self.entry,
            self.fit(runs),
            fit_runs=tuple(runs),
            calibrate_runs=tuple(calibrate),
            n_calibration_runs=len(np.unique(others.run[~others.positive])),
        )

    def rows(self, runs: Sequence[str], *, every: int = 1) -> LabelledWindows:
        """The labelled windows of these runs, of every so many checkpoints one.

        Of undecided runs there are none.
        """
        place = {run: row for row, run in enumerate(self.scores[0].runs)}
        chosen = [place[run] for run in sorted(runs) if run in place]
        parts = [scores.select(chosen) for scores in self.scores]
        windows = [score_windows(part, self._prereg) for part in parts]
        # Where windows without a score are left out, one member that has none is enough.
        positive = np.logical_and.reduce([one.positive for one in windows])
        negative = np.logical_and.reduce([one.negative for one in windows])
        labelled = positive | negative
        labelled[:, np.arange(labelled.shape[1]) % every > 0] = False
        run, column = np.nonzero(labelled)
        features = np.stack([part.values[run, column] for part in parts], axis=1)
        for row, member in np.argwhere(np.abs(features) > LARGEST)[:1]:
            scores, cell = parts[member], (run[row], column[row])
            what = f"is {scores.values[cell]:g} in run {scores.runs[run[row]]!r}, step"
            hint = "too large to be combined; mend the score, or leave it out"
            who = f"candidate {self.entry.name!r}: its member {scores.name!r}"
            raise InputError(f"{who} {what} {scores.steps[cell]}, {hint}")
        return LabelledWindows(features, positive[run, column], run)


def frozen_formula(entry: Entry, chosen: Chosen[Any], **runs: Any) -> LockedEnsemble:
    """A fitted combination as a file keeps it; `runs` are the fields that say which they were."""
    assert entry.ensemble is not None
    odds = chosen.log_odds
    members: list[dict[str, Any]] = []
    for member in entry.members:
        params = dict(member.indicator.with_defaults(member.parameters))
        known = dataclasses.asdict(member.declared)
        known.pop("knows_task")  # which follows from its columns
        members.append({**known, "params": params})
    if isinstance(odds, LogOdds):
        fitted = {"center": odds.center, "scale": odds.scale, "coefficient": odds.coefficients}
        for name, numbers in fitted.items():
            of_members = numbers.reshape(len(members), -1).tolist()
            for record, each in zip(members, of_members, strict=True):
                record[name] = tuple(each)
    return LockedEnsemble(
        method=entry.ensemble.method,
        features=entry.ensemble.features,
        members=tuple(LockedMember(**record) for record in members),
        intercept=odds.intercept,
        trees=odds.trees if isinstance(odds, Boosted) else (),
        setting=_setting(chosen.setting),
        log_losses={_setting(setting): loss for setting, loss in chosen.losses.items()},
        **runs,
    )


def lock_ensembles(
    prepared: Prepared,
) -> tuple[list[Entry], dict[str, LockedEnsemble], list[Finding]]:
    """Fit the ensembles among the scores of explore runs, or raise `InputError`.

    Returns:
        The scores, each ensemble with its formula; the ensembles' records; and warnings.
    """
    entries: list[Entry] = []
    locked: dict[str, LockedEnsemble] = {}
    found: list[Finding] = []
    for entry in prepared.entries:
        if entry.ensemble is not None:
            fit, calibrate = split_runs(prepared.log.runs, entry.ensemble)
            record = MemberScores.of(entry, prepared).locked(fit, calibrate)
            locked[entry.name] = record
            found += doubts(entry.name, record, prepared.design, prepared.runs_with_negatives)
            entry = dataclasses.replace(entry, indicator=fitted_ensemble(entry.name, record))
        if entry.pretrained is not None:  # which all of these runs calibrate
            runs = {
                "calibrate_runs": prepared.log.runs,
                "n_calibration_runs": prepared.runs_with_negatives,
            }
            locked[entry.name] = entry.pretrained.model_copy(update=runs)
        entries.append(entry)
    return entries, locked, found


def doubts(
    name: str, record: LockedEnsemble, design: Design, with_negatives: int
) -> Iterator[Finding]:
    """Warnings of one ensemble's fit, and of the runs that are left to calibrate it.

    `with_negatives` counts the runs with negative windows that calibrate the other scores.
    """
    if record.at_edge:
        penalty = float(record.setting)
        side = "smaller" if penalty == min(map(float, record.log_losses)) else "larger"
        yield warning("penalty_at_edge", name=name, penalty=penalty, side=side)
    if len(record.fit_runs) < _FEW_FIT_RUNS:
        fitted = len(record.fit_runs)
        yield warning("few_fit_runs", name=name, runs=fitted, least=_FEW_FIT_RUNS)
    runs, of = record.n_calibration_runs, len(record.calibrate_runs)
    takes = {f"{target:g}": runs_needed(target) for target in design.fpr_targets}
    takes |= {in_words(one): runs_to_promise(one, design.calibration) for one in design.run_budgets}
    strict = design.protocol == "strict"
    lost = {what: n for what, n in takes.items() if strict and runs < n <= with_negatives}
    if lost:
        needed, named = max(lost.values()), ", ".join(lost)
        yield warning(
            "few_runs_for_ensemble", name=name, lost=named, needed=needed, runs=runs, of=of
        )


def unwatched(
    locked: Mapping[str, LockedEnsemble], health: LockedHealth | None
) -> Iterator[Finding]:
    """Warnings of ensembles whose drift a monitor could not tell, where it could that of others."""
    if health is None or health.n_calibration_runs < runs_needed(health.alpha):
        return
    for name in (name for name in locked if name not in health.candidates):
        needed = runs_needed(health.alpha)
        yield warning("no_health_for_ensemble", name=name, alpha=health.alpha, needed=needed)


def cross_fitted(entry: Entry, prepared: Prepared) -> Scores:
    """The score of an ensemble in which no run is scored by a formula that it helped to find.

    Runs are dealt into five parts, each scored by what is fitted on the others.
    """
    members = MemberScores.of(entry, prepared)
    first, seed = members.scores[0], members.design.split_seed
    dealt = sorted(first.runs, key=lambda run: _lot(run, seed))
    features = np.stack([scores.values for scores in members.scores], axis=-1)
    values = np.full(first.values.shape, np.nan)
    for number in range(min(_CROSS_FIT_FOLDS, len(dealt))):
        part = set(dealt[number::_CROSS_FIT_FOLDS])
        chosen = members.fit([run for run in first.runs if run not in part])
        rows = [row for row, run in enumerate(first.runs) if run in part]
        values[rows] = entry.sign * chosen.log_odds(features[rows])
    return dataclasses.replace(first, name=entry.name, values=values)


COMBINATIONS: dict[str, tuple[Kind, str]] = {
    "label_free_combination": ("label-free", "logistic"),
    "label_free_boosted": ("label-free", "boosted"),
    "task_aware_combination": ("task-aware", "logistic"),
    "task_aware_boosted": ("task-aware", "boosted"),
    LEARNED_METRIC: ("label-using", "logistic"),
}
"""The combinations that presets ask for: what the most knowing member knows, and the method."""
FEATURES = ("score", "change_5", "change_20", "below_maximum")
"""Of each member: what a first alarm can be told by."""


def members_of(design: Design) -> dict[Kind, list[Score]]:
    """What a combination of each class would be made of, from the candidates of a design.

    `label-free`: every score that sees no held-out label and does not know the task. `task-aware`:
    those and the ones that do, if there is any. Of both no rule, and nothing that costs a gradient
    or more at each checkpoint (`catalogue.DEAR`). `label-using`: the metric of the event, and what
    is made of the same logits; nothing of an event that is found in no metric.
    """
    found: dict[Kind, list[Score]] = {kind: [] for kind in get_args(Kind)}
    read = {design.metric} if EVENTS[design.event_type].reads_metric else set()
    read |= {*catalogue.OF_THE_OUTPUT} if read & {*catalogue.OF_THE_OUTPUT} else set()
    for item in design.candidates:
        if item.family == ENSEMBLE:
            continue
        indicator = _indicator_of(item)
        if indicator.rule or not catalogue.DEAR.isdisjoint(indicator.needs):
            continue
        known = item.model_dump(include={*Score.model_fields})
        score = Score.parse({key: x for key, x in known.items() if x is not None}, where="member")
        if read.issuperset(indicator.needs):
            found["label-using"].append(score)
        if indicator.sees_test_labels is False and indicator.kind != "label-using":
            found[indicator.kind].append(score)
    told = {name for score in found["label-using"] for name in _indicator_of(score).needs}
    if read and design.metric not in told:
        sees = None if design.metric in LABEL_FREE else True
        metric: Any = {"name": design.metric, "family": EXTERNAL, "x_sees_test_labels": sees}
        found["label-using"].insert(0, Score.parse(metric, where="member"))
    if found["task-aware"]:
        found["task-aware"] = found["label-free"] + found["task-aware"]
    return found


def _indicator_of(score: Score) -> Indicator:
    """What a score of a design reads and sees, without a log."""
    if score.family not in COLUMN_FAMILIES and score.name in catalogue.names():
        return catalogue.get(score.name)
    sees = score.x_sees_test_labels
    return external(score.name, sees, family=score.family or EXTERNAL)


def combinations_of(design: Design, log: RunLog) -> list[dict[str, Any]]:
    """The candidates that combine the scores of a design: `COMBINATIONS`, of `members_of`.

    One is left out whose members have fewer than two features together; all are where so few of the
    explore runs that they would be fitted on have windows of both classes that they cannot be
    fitted. Of the log no runs but the declared explore runs are looked at.
    """
    shared: dict[str, Any] = {"features": list(FEATURES)}
    explored = [*explore_runs_of(design, log)]
    # Half of the runs, where the other half is twice what its budget takes.
    if len(explored) >= 4 * runs_to_promise(design.primary_run_budget, design.calibration):
        shared["fit_share"] = 0.5
    wanted = {kind: members for kind, members in members_of(design).items() if members}
    if not wanted:
        return []
    first = [{"name": one.name} for one in next(iter(wanted.values()))]
    ensemble = Ensemble.parse({"members": first, **shared}, where="combination")
    fit = split_runs(explored, ensemble)[0]
    if len(fit) < ensemble.folds:
        return []
    try:
        windows = prepare(log.select(fit), design).windows
    except InputError:
        return []  # what is wrong with the design is said when it is locked
    if (windows.positive.any(axis=1) & windows.negative.any(axis=1)).sum() < ensemble.folds:
        return []
    return [
        {
            "name": name,
            "family": ENSEMBLE,
            **({} if kind == "label-using" else {"x_sees_test_labels": False}),
            "x_ensemble": {
                "members": [plain_member(one) for one in wanted[kind]],
                **shared,
                "method": method,
            },
        }
        for name, (kind, method) in COMBINATIONS.items()
        if kind in wanted and len(wanted[kind]) >= (1 if kind == "label-using" else 2)
    ]


def plain_member(score: Score) -> dict[str, Any]:
    """A member as a design lists it: what follows from its name is left out."""
    known = score.model_dump(exclude_none=True, exclude_defaults=True)
    if score.family not in COLUMN_FAMILIES and score.name in catalogue.names():
        known.pop("x_sees_test_labels", None)
    return known


def explore_runs_of(design: Design, log: RunLog) -> list[str]:
    """The declared explore runs of a log, in its order."""
    seeds = set(design.seeds_explore)
    return [run for run, seed in zip(log.runs, log.seeds, strict=True) if seed in seeds]
