"""Made-up run logs that look like grokking: memorise, wait, generalise, each run at its own time.

No training behind them: smooth curves of the right shape plus noise, from one seed. Every run shows
what real ones show, so that every indicator has something to work on: the training loss falls
early, the held-out accuracy jumps late, and norms, entropies and Fourier concentration start to
move some hundred steps before the jump.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.indicators.catalogue import get, names
from gmb_hf.runs.metadata import LEVELS, at_level
from gmb_hf.runs.runlog import RunLog

CLASSES = 29

SYNTHETIC_DESIGN: dict[str, Any] = {
    "horizon": 100,
    "safe_gap": 200,
    "w_event": 50,
    "jump_threshold": 0.2,
    "burn_in": 150,
    "lead_time_target": 30,
    "lead_time_median_min": 20,
    "undeclared": ["task", "model", "optimizer", "schedule", "seeds_eval"],
}
"""A design, as `Design.minimal` takes it, that suits these runs."""

FEW_MEMBERS: dict[str, Any] = {"smoothing_sweep": [1, 3], "run_groups": 2}
"""What makes layer D of a design small, where another layer is the thing tested."""


def synthetic_runlog(
    n_runs: int = 12,
    n_checkpoints: int = 121,
    cadence: int = 10,
    seed: int = 0,
    *,
    first_seed: int = 0,
    ragged: bool = False,
    share_with_event: float = 1.0,
    corrupted: bool = False,
    bundles: bool = False,
    published: bool = False,
) -> RunLog:
    """A run log with every observable of a real one.

    Args:
        n_runs: number of runs, named seed_<first_seed>, ...
        n_checkpoints: checkpoints of the longest run, at steps 0, cadence, 2 cadence, ...
        cadence: steps between checkpoints.
        seed: of the noise and the event times; the same arguments give the same log.
        first_seed: seed of the first run.
        ragged: end about half of the runs early, after 60% of the checkpoints or later.
        share_with_event: share of runs that generalise within the log.
        corrupted: add `correction_rate`, as where some training labels are wrong.
        bundles: add the margins that `gmb crucible from-runs` measures, and what a language
            model's samples and the states of a model with loops say.
        published: add every other column that an indicator reads.
    """
    rng = np.random.default_rng(seed)
    steps = np.arange(n_checkpoints) * cadence
    end = float(max(steps[-1], 1))
    event = end * rng.uniform(0.3, 0.9, size=n_runs)
    event[rng.permutation(n_runs)[round(share_with_event * n_runs) :]] = 10 * end
    data = _observables(rng, steps[None, :].astype(float), event[:, None], end)
    if corrupted:
        data["correction_rate"] = np.clip(data["test_acc"] + 0.01, 0, 1)
    if bundles:
        data["crucible_margin_q10"] = data["test_acc"] - 0.6
        data["crucible_train_margin_q10"] = 0.5 * data["test_acc"] - 0.2
        data["self_consistency_disagreement"] = 0.9 - 0.6 * data["test_acc"]
        data |= _loops(data["test_acc"])
    if published:
        data |= _published(data)
    names = [f"seed_{first_seed + i}" for i in range(n_runs)]
    log = RunLog.from_arrays(
        names,
        steps,
        data,
        seeds=[first_seed + i for i in range(n_runs)],
        metadata={"task": {"name": "synthetic", "prime": CLASSES}, "cadence": cadence},
    )
    if not ragged:
        return log
    lengths = np.where(
        rng.random(n_runs) < 0.5,
        rng.integers(round(0.6 * n_checkpoints), n_checkpoints + 1, size=n_runs),
        n_checkpoints,
    )
    keep = np.arange(n_checkpoints)[None, :] < lengths[:, None]
    return RunLog.from_table(log.table.filter(keep.ravel()), metadata=log.metadata)


def _loops(test_acc: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What a model with two cycles of two inner steps and halting shows as it generalises."""
    data = {
        "reset_spike": 0.05 + 0.1 * test_acc,
        "state_distance_q50": 0.4 - 0.2 * test_acc,
        "state_distance_q90": 0.6 - 0.3 * test_acc,
        "slow_participation": 6 + 2 * test_acc,
        "fast_participation": 6 - test_acc,
        "halting_steps": 1.5 - 0.3 * test_acc,
        "halting_variance": 0.25 - 0.1 * test_acc**2,
        "halting_margin": test_acc,
    }
    for level in LEVELS:
        data[at_level("reset_share", level)] = np.clip(test_acc - level / 200, 0, 1)
        for quantile, most in (("q50", 2.5), ("q90", 3.0)):
            data[at_level(f"settling_{quantile}", level)] = most - test_acc
    return data


def _published(data: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns that some indicator reads and that are not there yet, each a mix of its own."""
    read = {column for name in names() for column in get(name).needs} - {"step", *data}
    noise = np.random.default_rng(0)
    memorised, general = data["train_acc"], data["test_acc"]
    return {
        column: 2 + noise.uniform(0.5, 1) * memorised + noise.uniform(-1, 1) * general
        for column in sorted(read)
    }


def event_like_steps(log: RunLog) -> NDArray[np.float64]:
    """The step at which each run's held-out accuracy passes one half, NaN where it never does."""
    panel = log.panel("test_acc")
    above = panel.present & (np.nan_to_num(panel.values) > 0.5)
    first = panel.steps[np.arange(panel.n_runs), above.argmax(axis=1)].astype(float)
    return np.where(above.any(axis=1), first, np.nan)


def _observables(
    rng: np.random.Generator, t: NDArray[Any], event: NDArray[Any], end: float
) -> dict[str, NDArray[Any]]:
    shape = np.broadcast_shapes(t.shape, event.shape)

    def noise(scale: float) -> NDArray[Any]:
        return scale * rng.standard_normal(shape)

    def rise(centre: NDArray[Any] | float, width: float) -> NDArray[Any]:
        return np.broadcast_to(1 / (1 + np.exp(-np.clip((t - centre) / width, -60, 60))), shape)

    memorised = rise(0.08 * end, 0.015 * end)
    structure = rise(event - 0.05 * end, 0.04 * end)  # under way before accuracy shows it
    jump = rise(event, 0.012 * end)

    train_loss = np.log(CLASSES) * (1 - memorised) + 1e-3 * (1 - 0.9 * jump)
    test_loss = np.log(CLASSES) * (1 + 0.8 * memorised) * (1 - 0.6 * structure) * (1 - 0.97 * jump)
    train_acc = np.clip(np.floor((1 / CLASSES + memorised) * 504) / 504, 0, 1)
    test_acc = np.clip(1 / CLASSES + jump * (1 - 1 / CLASSES) + noise(0.004), 0, 1)
    embedding_norm = 6 + 9 * memorised - 6 * structure + noise(0.02)
    unembedding_norm = 5 + 7 * memorised - 4 * structure + noise(0.02)
    attention_norm = 7 + 4 * memorised - 2 * structure + noise(0.02)
    mlp_norm = 8 + 8 * memorised - 5 * structure + noise(0.02)
    norms = (embedding_norm, unembedding_norm, attention_norm, mlp_norm)
    entropies = {
        "embedding": 3.2 - 1.2 * structure + noise(0.01),
        "unembedding": 3.1 - 1.4 * structure + noise(0.01),
        "attention": 3.3 - 0.6 * structure + noise(0.01),
    }
    data = {
        "train_loss": train_loss * np.exp(noise(0.05)),
        "test_loss": test_loss * np.exp(noise(0.02)),
        "train_acc": train_acc,
        "test_acc": test_acc,
        "weight_norm": np.sqrt(sum(norm**2 for norm in norms)),
        "embedding_norm": embedding_norm,
        "unembedding_norm": unembedding_norm,
        "attention_norm": attention_norm,
        "mlp_norm": mlp_norm,
        "gradient_norm": 0.02 + 0.5 * (1 - memorised) + 0.3 * structure * (1 - jump),
        "update_norm": 0.05 + 0.2 * (1 - memorised) + 0.1 * structure * (1 - jump),
        **{f"{name}_entropy": values for name, values in entropies.items()},
        **{f"{name}_rank": np.exp(values) for name, values in entropies.items()},
        "embedding_gini": np.clip(0.2 + 0.6 * structure + noise(0.01), 0, 1),
        "unembedding_gini": np.clip(0.2 + 0.65 * structure + noise(0.01), 0, 1),
        "participation_ratio": 18 - 9 * structure + noise(0.1),
        "curvature": 2 + 8 * structure * (1 - jump) + noise(0.1),
        "disagreement": np.clip(0.6 - 0.55 * structure + noise(0.01), 0, 1),
        "prediction_change": np.clip(0.5 * (1 - jump) * (1.1 - structure) + noise(0.01), 0, 1),
        "restricted_loss": np.log(CLASSES) * (1 - 0.95 * structure),
        "excluded_loss": train_loss + 2 * structure,
    }
    for part, centre in (("train", 6 * memorised + 2 * jump), ("test", -4 * memorised + 12 * jump)):
        for quantile, spread in (("q10", -2.0), ("q50", 0.0), ("q90", 2.0)):
            data[f"{part}_margin_{quantile}"] = centre + spread + noise(0.05)
    for name in ("gradient_norm", "update_norm"):
        data[name] = data[name] * np.exp(noise(0.1))
    return data
