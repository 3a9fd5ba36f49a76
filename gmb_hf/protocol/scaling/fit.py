"""Fit L(N, D) = A / N^alpha + B / D^beta + E to a grid of trainings, with intervals. No torch.

As Hoffmann et al. 2022 (https://arxiv.org/abs/2203.15556), approach 3: the Huber loss (delta 1e-3)
of log L, the three terms as a log-sum-exp, a grid of starts, L-BFGS from the best of them. Their
approach 2 beside it: at equal compute a parabola of the loss in log N, whose minima follow powers
of the compute. Besiroglu et al. 2024 (https://arxiv.org/abs/2404.10102) on intervals of such fits.

Intervals are percentiles over bootstrap draws of the points (N, D) of the grid, each with its
seeds. Two variants are compared on the points and seeds that both have, each draw the same for
both.

Arrays: C cells, S starts or draws. A law's five numbers are (a, b, e, alpha, beta), with
log L = log(exp(a - alpha n) + exp(b - beta d) + exp(e)), n and d the logarithms of N and D about
their means.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, choose, first_of, not_negative, positive_int
from gmb_hf.base.files import read_json
from gmb_hf.base.stats import chosen_baseline
from gmb_hf.report.sheet import sentences_of

Floats = NDArray[np.float64]
DESIGN, CELLS = "scaling.yaml", "cells"
DELTA = 1e-3
DRAWS = 1000
LEAST_DRAWS = 40  # its 2.5% and 97.5% lie within them
COUNTS = ("non_embedding", "parameters")
LEAST_SIZES, LEAST_AMOUNTS, LEAST_POINTS = 3, 3, 9
LEVELS = 8
_LEAST_MINIMA = 3
_MOST_MISFIT = 0.01
_ROUNDS, _PATIENCE = 100, 6
_ISO_DRAWS = 300  # parabolas are laid one draw at a time


@dataclass(frozen=True, kw_only=True)
class Cell(Record):
    """What came out of one training of a grid; a record in `cells/`.

    Attributes:
        name: of the record.
        variant, params, seed: as they were asked for; `tokens` as many as were seen.
        parameters, non_embedding: of the model, all and without embeddings.
        flops: of the whole training.
        test_loss, train_loss: nats per token after the last update; None where no number.
        floor: the source's exact entropy per token in blocks of this length; None of a text.
        test_floor: the mean surprisal of the source itself on the very tokens of `test_loss`.
        diverged: in words why the cell is in no fit; empty where it is.
        layers, width, steps, lr: of the training.
        hash: of its config.
        seconds: that it took.
    """

    name: str
    variant: str
    params: int
    tokens: int
    seed: int
    parameters: int
    non_embedding: int
    flops: float
    test_loss: float | None
    train_loss: float | None
    floor: float | None
    test_floor: float | None
    diverged: str
    layers: int
    width: int
    steps: int
    lr: float
    hash: str
    seconds: float = 0.0

    @property
    def loss(self) -> float:
        """The held-out loss that is fitted, nats per token.

        Of a source it is the excess over the source's own surprisal on the same tokens, plus the
        exact entropy: of the same mean as the loss itself, without the luck of the held-out draw.
        """
        assert self.test_loss is not None
        if self.floor is None or self.test_floor is None:
            return self.test_loss
        return self.test_loss - self.test_floor + self.floor


def read_cells(folder: str | Path) -> list[Cell]:
    """The records in a folder of `gmb scaling run`, by variant, size, tokens and seed.

    `InputError` where there is none, or one is no such record.
    """
    place = Path(folder) / CELLS
    found = []
    for path in sorted(place.glob("*.json")):
        held: Any = read_json(path)
        try:
            cell = Cell(**held)
            numbers = (cell.flops, cell.tokens, cell.non_embedding, cell.test_loss or 1.0)
            if min(numbers) <= 0 or (cell.test_loss is None and not cell.diverged):
                raise ValueError
        except (TypeError, ValueError):
            raise InputError(
                f"{path}: no record of a cell (name, variant, params, tokens, ...); delete it and "
                "give the command of gmb scaling run again"
            ) from None
        found.append(cell)
    if not found:
        raise InputError(f"{place}: no cells; name the folder of gmb scaling run")
    return sorted(found, key=lambda one: (one.variant, one.params, one.tokens, one.seed))


class Points(NamedTuple):
    """The cells of one variant as arrays [C]: sizes N, tokens D, FLOPs, losses.

    `point` numbers the grid point of each, its size and tokens as asked for.
    """

    n: Floats
    d: Floats
    flops: Floats
    loss: Floats
    point: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Sequence[Cell], count: str = COUNTS[0]) -> Points:
        """The cells in their order; sizes are without embeddings, or `parameters`."""
        rows = [(getattr(one, count), one.tokens, one.flops, one.loss) for one in cells]
        n, d, flops, loss = np.array(rows, dtype=np.float64).T
        asked = [(one.params, one.tokens) for one in cells]
        point = np.unique(asked, axis=0, return_inverse=True)[1].ravel()
        return cls(n, d, flops, loss, point)


@dataclass(frozen=True)
class Law(Record):
    """L(N, D) = A / N^alpha + B / D^beta + E, in nats per token.

    Attributes:
        objective: the Huber loss of log L at the fit, summed over cells.
        agreeing: the share of the starts that ended within a thousandth of it.
    """

    A: float
    B: float
    E: float
    alpha: float
    beta: float
    objective: float
    agreeing: float

    def __call__(self, n: Any, d: Any) -> Any:
        """The loss of models of N parameters after D tokens."""
        return self.A * np.power(n, -self.alpha) + self.B * np.power(d, -self.beta) + self.E


def _terms(laws: Floats, n: Floats, d: Floats) -> tuple[Floats, Floats]:
    """log L, [S, C], and the share of each of the three terms, [S, 3, C], of laws [S, 5]."""
    a, b, e, alpha, beta = laws.T[:, :, None]
    parts = np.stack([a - alpha * n, b - beta * d, np.broadcast_to(e, (len(laws), len(n)))], axis=1)
    top = parts.max(axis=1, keepdims=True)
    grown = np.exp(parts - top)
    whole = grown.sum(axis=1, keepdims=True)
    return (top + np.log(whole))[:, 0], grown / whole


def _objective(laws: Floats, n: Floats, d: Floats, y: Floats, weights: Floats) -> Floats:
    return np.asarray((weights * special.huber(DELTA, _terms(laws, n, d)[0] - y)).sum(axis=1))


def _descend(
    laws: Floats, n: Floats, d: Floats, y: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Laws [S, 5] and their objectives [S] after damped Gauss-Newton steps, all starts at once.

    The Huber loss is reweighted least squares (each cell by min(1, delta / |residual|)); a step
    is taken where it lowers the objective, else damped more. `weights` are [S, C].
    """
    laws = laws.copy()
    best = _objective(laws, n, d, y, weights)
    damping = np.full(len(laws), 1e-2)
    stale = np.zeros(len(laws))
    for _ in range(_ROUNDS):
        log_loss, shares = _terms(laws, n, d)
        residual = log_loss - y
        pull = weights * np.minimum(1, DELTA / np.maximum(np.abs(residual), 1e-12))
        slope = np.stack(
            [shares[:, 0], shares[:, 1], shares[:, 2], -shares[:, 0] * n, -shares[:, 1] * d], axis=2
        )
        gradient = np.einsum("scp,sc->sp", slope, pull * residual)
        curvature = np.einsum("scp,sc,scq->spq", slope, pull, slope)
        spread = np.einsum("spp->sp", curvature)
        spread += damping[:, None] * spread + 1e-12
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        tried = laws - np.clip(step, -2, 2)
        after = _objective(tried, n, d, y, weights)
        better = after < best
        stale = np.where(best - after > 1e-5 * best, 0, stale + 1)
        laws[better], best = tried[better], np.where(better, after, best)
        damping = np.clip(np.where(better, damping / 4, damping * 4), 1e-9, 1e6)
        if stale.min() >= _PATIENCE:
            break
    return laws, best


def _starts(loss: Floats) -> Floats:
    """Starts of the fit [S, 5]: exponents .2, .5 and 1; a floor at .5, .9 and .99 of the least."""
    starts = []
    for alpha, beta, share in itertools.product((0.2, 0.5, 1.0), (0.2, 0.5, 1.0), (0.5, 0.9, 0.99)):
        floor = share * loss.min()
        half = math.log(max(np.median(loss) - floor, 1e-3 * floor) / 2)
        starts.append((half, half, math.log(floor), alpha, beta))
    return np.array(starts)


def fit_law(n: Floats, d: Floats, loss: Floats) -> Law:
    """The law of the least Huber loss; sizes N, tokens D and losses are [C]."""
    return _fit(np.log(n), np.log(d), np.log(loss))[0]


def _fit(n: Floats, d: Floats, y: Floats) -> tuple[Law, Floats]:
    """The law of the logarithms of N, D and losses, and its numbers about the means of both."""
    middle_n, middle_d = n.mean(), d.mean()
    n, d = n - middle_n, d - middle_d
    starts = _starts(np.exp(y))
    ones = np.ones((len(starts), len(y)))
    laws, ends = _descend(starts, n, d, y, ones)
    found = [(ends[place], laws[place]) for place in np.argsort(ends)[:3]]

    def objective(law: Floats) -> tuple[float, Floats]:
        log_loss, shares = _terms(law[None], n, d)
        residual = log_loss[0] - y
        p, q, r = shares[0]
        slope = np.stack([p, q, r, -p * n, -q * d])
        return float(special.huber(DELTA, residual).sum()), slope @ np.clip(residual, -DELTA, DELTA)

    for _, law in list(found):
        polished = optimize.minimize(objective, law, jac=True, method="L-BFGS-B")
        found.append((polished.fun, polished.x))
    best, law = min(found, key=lambda pair: pair[0])
    agreeing = float(np.mean(ends <= best * 1.001 + 1e-12))
    a, b, e, alpha, beta = map(float, law)
    constants = _exp(a + alpha * middle_n), _exp(b + beta * middle_d), _exp(e)
    return Law(*constants, alpha, beta, float(best), agreeing), law


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def draw_weights(point: NDArray[np.int64], draws: int, random: np.random.Generator) -> Floats:
    """How often each cell is in each bootstrap draw, [draws, C].

    Points are drawn with replacement, each with all of its seeds. What seeds differ by is between
    the points too, and drawing them once more inside would count it twice (Davison and Hinkley
    1997, section 3.8): over 100 simulations such intervals held the truth 99 times and more.
    """
    count = int(point.max()) + 1
    taken = random.multinomial(count, np.full(count, 1 / count), size=draws)
    return np.asarray(taken[:, point], dtype=np.float64)


def draw_laws(points: Points, weights: Floats, law: Floats) -> Floats:
    """The fit of every bootstrap draw, [S, 5], from the fit of all cells and from a lower floor."""
    n, d, y = (np.log(values) for values in (points.n, points.d, points.loss))
    n, d = n - n.mean(), d - d.mean()
    lower = law.copy()
    lower[2] = min(law[2], y.min()) - 0.05
    found = [_descend(np.tile(one, (len(weights), 1)), n, d, y, weights) for one in (law, lower)]
    better = found[1][1] < found[0][1]
    return np.where(better[:, None], found[1][0], found[0][0])


@dataclass(frozen=True)
class Estimate(Record):
    """A number with its 95% interval over bootstrap draws; no interval where there is none."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """From the fit's value and, after it, those of the draws; what is no number is left out."""
        value, draws = float(values[0]), values[1:]
        known = draws[np.isfinite(draws)]
        if len(known) < len(draws) / 2 or not len(known):
            return cls(value, None, None)
        low, high = np.percentile(known, [2.5, 97.5])
        return cls(value, float(low), float(high))

    def holds(self, number: float) -> bool | None:
        """Whether a number lies in the interval; None without one."""
        if self.low is None or self.high is None:
            return None
        return self.low <= number <= self.high

    def __format__(self, form: str) -> str:
        """The number with its interval, e.g. `0.452 [0.431, 0.470]` of `.3f`."""
        if self.low is None or self.high is None:
            return f"{self.value:{form}} (no interval)"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"

    @property
    def half_width(self) -> float:
        """Half of the interval's width; infinite without one."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Minimum(Record):
    """The best size at a compute: the vertex of a parabola of the loss in log N.

    Attributes:
        flops: of the training.
        n, d, loss: parameters and tokens of the best model, and its loss by the parabola.
        sizes, losses: that the parabola was laid through.
        parabola: its coefficients in ln N, highest power first.
    """

    flops: float
    n: float
    d: float
    loss: float
    sizes: tuple[float, ...]
    losses: tuple[float, ...]
    parabola: tuple[float, float, float]


def flops_per_token(points: Points) -> tuple[float, float]:
    """(c, k) of FLOPs per token = c N^k, by least squares of the logarithms."""
    slope, constant = np.polyfit(np.log(points.n), np.log(points.flops / points.d), 1)
    return math.exp(constant), float(slope)


def iso_flop_minima(points: Points, weights: Floats | None = None) -> list[Minimum]:
    """The minima at up to `LEVELS` amounts of compute, evenly spaced in its logarithm.

    The loss of each size at a compute is interpolated in the logarithms between the amounts of
    tokens that it was trained on, never beyond them. A parabola needs three sizes or more, opens
    upwards, and has its vertex between the least and the largest of them. `weights` [C] are of a
    bootstrap draw.
    """
    weights = np.ones(len(points.n)) if weights is None else weights
    curves = []
    for size in np.unique(points.n):
        at = np.unique(points.d[(points.n == size) & (weights > 0)])
        if len(at) < 2:
            continue
        rows = [(points.n == size) & (points.d == one) for one in at]
        loss = [np.average(points.loss[row], weights=weights[row]) for row in rows]
        flops = [points.flops[row][0] for row in rows]
        curves.append((size, np.log(flops), np.log(loss)))
    if len(curves) < LEAST_SIZES:
        return []
    first = sorted(curve[1][0] for curve in curves)[LEAST_SIZES - 1]
    last = sorted(curve[1][-1] for curve in curves)[-LEAST_SIZES]
    if last <= first:
        return []
    c, k = flops_per_token(points)
    found = []
    for level in np.linspace(first, last, LEVELS):
        held = [
            (math.log(size), math.exp(np.interp(level, flops, loss)))
            for size, flops, loss in curves
            if flops[0] - 1e-9 <= level <= flops[-1] + 1e-9
        ]
        if len(held) < LEAST_SIZES:
            continue
        x, y = np.array(held).T
        bend, slope, constant = map(float, np.polyfit(x - x.mean(), y, 2))
        if bend <= 0:
            continue
        vertex = -slope / (2 * bend) + x.mean()
        if not x.min() <= vertex <= x.max():
            continue
        best, flops_there = math.exp(vertex), math.exp(level)
        middle = float(x.mean())
        parabola = (bend, slope - 2 * bend * middle, constant - slope * middle + bend * middle**2)
        lowest = constant - slope**2 / (4 * bend)
        sizes, losses = tuple(np.exp(x).tolist()), tuple(y.tolist())
        d = flops_there / (c * best**k)
        found.append(Minimum(flops_there, best, d, lowest, sizes, losses, parabola))
    return found


def _power(minima: Sequence[Minimum]) -> tuple[float, float]:
    """Exponents of the best size and of the best tokens in the compute; NaN of too few minima."""
    if len(minima) < _LEAST_MINIMA:
        return math.nan, math.nan
    x = np.log([one.flops for one in minima])
    return tuple(  # type: ignore[return-value]
        float(np.polyfit(x, np.log([getattr(one, name) for one in minima]), 1)[0]) for name in "nd"
    )


@dataclass(frozen=True)
class VariantFit(Record):
    """What the grid of one variant says.

    Attributes:
        cells, sizes, amounts, seeds: how many were fitted.
        law: the fit of all cells.
        numbers: A, B, E, alpha, beta; `compute`, alpha beta / (alpha + beta), the exponent at which
            the loss of the best size falls with compute; `optimal_n` and `optimal_d`, beta and
            alpha over alpha + beta, those of the best size and the best tokens.
        known: the exact floor; None of a text.
        known_inside: whether it lies in the interval of E; None without one.
        rms: root mean square of the residuals of log L.
        minima: at equal compute; `iso_n` and `iso_d` are their exponents, None of too few.
        drawn_minima: the share of draws that had minima enough for the exponents' intervals.
        notes: what is to be known of the numbers.
    """

    variant: str
    cells: int
    sizes: int
    amounts: int
    seeds: int
    law: Law
    numbers: dict[str, Estimate]
    known: float | None
    known_inside: bool | None
    rms: float
    minima: tuple[Minimum, ...]
    iso_n: Estimate | None
    iso_d: Estimate | None
    drawn_minima: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class VariantComparison(Record):
    """A variant less the baseline on the points and seeds of both.

    Attributes:
        numbers: differences of alpha, beta, E and the compute exponent, and of the loss of the best
            size at the least, the middle (in its logarithm) and the largest compute that both grids
            reach; `trend` is that at the largest less that at the least.
        flops: these three amounts of compute.
        told_apart: the exponents whose interval leaves out 0.
        sentence: the answer in words.
    """

    variant: str
    baseline: str
    cells: int
    flops: tuple[float, float, float]
    numbers: dict[str, Estimate]
    told_apart: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class ScalingFit(Record):
    """The fits of a grid; `fit.json` holds it.

    Attributes:
        count: what N counts.
        draws, seed: of the bootstrap.
        variants: name -> fit.
        comparisons: with the baseline.
        left_out: cell -> why it is in no fit.
        notes: on the whole.
    """

    count: str
    draws: int
    seed: int
    variants: dict[str, VariantFit]
    comparisons: tuple[VariantComparison, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]


def bootstrap(points: Points, weights: Floats) -> tuple[Law, Floats]:
    """The law of the cells; its numbers, and below them those of every draw, [1 + S, 5].

    Draws are by their weights [S, C] (`draw_weights`); numbers are as `frontier` takes them.
    """
    n, d, y = (np.log(values) for values in (points.n, points.d, points.loss))
    law, numbers = _fit(n, d, y)
    laws = np.vstack([numbers, draw_laws(points, weights, numbers)])
    laws[:, 0] += laws[:, 3] * n.mean()
    laws[:, 1] += laws[:, 4] * d.mean()
    return law, laws


def law_numbers(a: Any, b: Any, e: Any, alpha: Any, beta: Any) -> dict[str, Any]:
    """The numbers of a law by name, from the logarithms of its constants; arrays give arrays."""
    whole = alpha + beta
    return {
        "A": np.exp(np.minimum(a, 700)),
        "B": np.exp(np.minimum(b, 700)),
        "E": np.exp(e),
        "alpha": alpha,
        "beta": beta,
        "compute": alpha * beta / whole,
        "optimal_n": beta / whole,
        "optimal_d": alpha / whole,
    }


def too_few(name: str, cells: Sequence[Cell], lost: int = 0) -> str:
    """Why a grid is too small for five numbers; empty where it is not."""
    sizes = {one.params for one in cells}
    amounts = {one.tokens for one in cells}
    points = {(one.params, one.tokens) for one in cells}
    enough = len(sizes) >= LEAST_SIZES and len(amounts) >= LEAST_AMOUNTS
    if enough and len(points) >= LEAST_POINTS:
        return ""
    without = f" (without {lost} that diverged)" if lost else ""
    return (
        f"{name}: too few cells to fit: {len(sizes)} sizes, {len(amounts)} amounts of tokens "
        f"and {len(points)} points of both{without}; at least {LEAST_SIZES}, {LEAST_AMOUNTS} "
        f"and {LEAST_POINTS} are needed; add some with gmb scaling run --grid"
    )


def fit_cells(
    cells: Sequence[Cell],
    *,
    count: str = COUNTS[0],
    draws: int = DRAWS,
    seed: int = 0,
    baseline: str | None = None,
) -> ScalingFit:
    """Fit every variant of a grid, and compare each with the baseline.

    Args:
        cells: of the grid; diverged ones are named and left out.
        count: what N counts, "non_embedding" or "parameters".
        draws: of the bootstrap.
        seed: of the draws.
        baseline: None takes `dense`, else the first.

    `InputError` where no variant has cells enough, the draws are too few for an interval, or the
    baseline is none of the variants.
    """
    choose("count", count, COUNTS, where="--count")
    if positive_int("draws", draws) < LEAST_DRAWS:
        raise InputError(f"draws={draws}: a 95% interval takes at least {LEAST_DRAWS}")
    not_negative("seed", seed)
    names = list(dict.fromkeys(one.variant for one in cells))
    if baseline is not None:
        choose("variant", baseline, names, where="--baseline")
    left_out = {one.name: one.diverged for one in cells if one.diverged}
    notes = []
    if left_out:
        named = first_of([f"{name}: {why}" for name, why in left_out.items()], 4)
        notes.append(f"diverged, left out of every fit: {named}")
    fitted: dict[str, list[Cell]] = {}
    refused = []
    for name in names:
        every = [one for one in cells if one.variant == name]
        whole = [one for one in every if not one.diverged]
        if fault := too_few(name, whole, len(every) - len(whole)):
            refused.append(fault)
        else:
            fitted[name] = whole
    if not fitted:
        raise InputError(refused[0])
    notes += refused
    variants = {
        name: _variant(name, whole, count=count, draws=draws, seed=seed)
        for name, whole in fitted.items()
    }
    comparisons = []
    base = baseline or chosen_baseline(fitted)
    for name in fitted if base in fitted else ():
        if name != base:
            pair = _shared(fitted[name], fitted[base])
            if fault := too_few(f"{name} and {base} together", pair[0]):
                notes.append(fault)
            else:
                comparisons.append(_compare(pair, count=count, draws=draws, seed=seed))
    return ScalingFit(count, draws, seed, variants, tuple(comparisons), left_out, tuple(notes))


def _variant(name: str, cells: Sequence[Cell], *, count: str, draws: int, seed: int) -> VariantFit:
    points = Points.of(cells, count)
    random = np.random.default_rng(seed)
    weights = draw_weights(points.point, draws, random)
    law, laws = bootstrap(points, weights)
    numbers = {key: Estimate.of(values) for key, values in law_numbers(*laws.T).items()}
    residual = np.log(points.loss) - np.log(law(points.n, points.d))
    minima = iso_flop_minima(points)
    drawn = [iso_flop_minima(points, one) for one in weights[:_ISO_DRAWS]]
    exponents = np.array([_power(found) for found in (minima, *drawn)])
    share = float(np.isfinite(exponents[1:, 0]).mean())
    iso_n, iso_d = (Estimate.of(one) if math.isfinite(one[0]) else None for one in exponents.T)
    floors = {one.floor for one in cells}
    known = floors.pop() if len(floors) == 1 else None
    inside = None if known is None else numbers["E"].holds(known)
    seeds = len({one.seed for one in cells})
    rms = float(np.sqrt(np.mean(residual**2)))
    fit = VariantFit(
        variant=name,
        cells=len(cells),
        sizes=len({one.params for one in cells}),
        amounts=len({one.tokens for one in cells}),
        seeds=seeds,
        law=law,
        numbers=numbers,
        known=known,
        known_inside=inside,
        rms=rms,
        minima=tuple(minima),
        iso_n=iso_n,
        iso_d=iso_d,
        drawn_minima=share,
        notes=(),
    )
    about = {"fit": fit, "most_misfit": _MOST_MISFIT}
    return replace(fit, notes=tuple(sentences_of("notes.j2", "gmb_hf.protocol.scaling", **about)))


def _shared(ours: Sequence[Cell], theirs: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells of the points and seeds that both have, in one order."""
    sides = [{(one.params, one.tokens, one.seed): one for one in side} for side in (ours, theirs)]
    keys = sorted(sides[0].keys() & sides[1].keys())
    return [sides[0][key] for key in keys], [sides[1][key] for key in keys]


def frontier(laws: Floats, points: Points, flops: Floats) -> Floats:
    """The least loss of laws [S, 5] at amounts of compute [F], over all sizes, [S, F].

    Sizes are sought from a hundredth of the grid's least to a hundred times its largest.
    """
    c, k = flops_per_token(points)
    low, high = math.log(points.n.min() / 100), math.log(points.n.max() * 100)
    n = np.linspace(low, high, 400)
    d = np.log(flops)[:, None] - math.log(c) - k * n  # [F, 400]
    a, b, e, alpha, beta = laws.T[:, :, None, None]
    loss = np.exp(np.minimum(a - alpha * n, 50)) + np.exp(np.minimum(b - beta * d, 50)) + np.exp(e)
    return np.asarray(loss.min(axis=2))


def law_array(law: Law) -> Floats:
    """A law as `frontier` takes it, [1, 5]."""
    logs = [math.log(max(value, 1e-300)) for value in (law.A, law.B, law.E)]
    return np.array([[*logs, law.alpha, law.beta]])


_COMPARED = ("alpha", "beta", "E", "compute")
_AT = ("loss_at_least", "loss_at_middle", "loss_at_most")


def _compare(
    pair: tuple[Sequence[Cell], Sequence[Cell]], *, count: str, draws: int, seed: int
) -> VariantComparison:
    points = [Points.of(cells, count) for cells in pair]
    random = np.random.default_rng(seed)
    weights = draw_weights(points[0].point, draws, random)
    low = max(side.flops.min() for side in points)
    high = min(side.flops.max() for side in points)
    at = np.array([low, math.sqrt(low * high), high])
    ours, theirs = (_compared(side, bootstrap(side, weights)[1], at) for side in points)
    gaps = {key: values - theirs[key] for key, values in ours.items()}
    gaps["trend"] = gaps[_AT[2]] - gaps[_AT[0]]
    numbers = {key: Estimate.of(values) for key, values in gaps.items()}
    apart = tuple(key for key in ("alpha", "beta", "compute") if numbers[key].holds(0.0) is False)
    names = pair[0][0].variant, pair[1][0].variant
    said = {"variant": names[0], "baseline": names[1], "numbers": numbers, "apart": apart}
    (sentence,) = sentences_of("comparison.j2", "gmb_hf.protocol.scaling", **said)
    flops = (float(at[0]), float(at[1]), float(at[2]))
    return VariantComparison(*names, len(pair[0]), flops, numbers, apart, sentence)


def _compared(points: Points, laws: Floats, at: Floats) -> dict[str, Floats]:
    """The numbers of laws [S, 5] that are compared, and their least losses at compute, [S] each."""
    numbers = law_numbers(*laws.T)
    losses = zip(_AT, frontier(laws, points, at).T, strict=True)
    return {**{key: numbers[key] for key in _COMPARED}, **dict(losses)}
