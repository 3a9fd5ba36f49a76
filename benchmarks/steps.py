"""T1 and T2: the exact short forward against the project's own model on all eight tokens.

A side runs in its own process: `python -m benchmarks.steps SIDE PRESET SEEDS STEPS` trains and
prints seconds per seed and step, and the losses on the way.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Line, median, side

ROUNDS = 3
PLAIN_SEEDS = (0, 1, 2)
LOSS_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-5


def t1() -> Line:
    """Seeds x steps per second of the quick preset, 50 steps, losses equal to 1e-4 relative.

    Where a ReLU unit sits on its kink for a row, a rounding decides which way the run goes: after
    50 steps the losses of such a seed differ in the fourth digit, those of all others in the sixth.
    In float64 they agree to 1e-12 (`tests/training`).
    """
    plain, stacked = _rounds("quick", PLAIN_SEEDS, range(36), steps=50)
    worst = max(
        abs(a - b) / a
        for seed, losses in plain[-1]["losses"].items()
        for a, b in zip(losses, stacked[-1]["losses"][seed], strict=True)
    )
    ratio, details = _compare(plain, stacked)
    details.append(f"losses over 50 steps differ by {worst:.1e} at most, relative")
    return Line("T1", f"{ratio:.1f}x", ">= 20x", ratio >= 20 and worst <= LOSS_TOLERANCE, details)


def t2() -> Line:
    """One step of the 2-layer p=97 model, loss and gradients equal to 1e-5 relative."""
    plain, stacked = _rounds("paper", [0], [0], steps=4)
    ratio, details = _compare(plain, stacked)
    check = side("steps", "check", "paper", "0", "1")
    details.append(f"loss differs by {check['loss']:.1e}, gradients by {check['gradient']:.1e}")
    equal = check["loss"] <= GRADIENT_TOLERANCE and check["gradient"] <= GRADIENT_TOLERANCE
    return Line("T2", f"{ratio:.1f}x", ">= 9x", ratio >= 9 and equal, details)


def _rounds(
    preset: str, plain_seeds: Sequence[int], stacked_seeds: Sequence[int], *, steps: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    plain, stacked = [], []
    for _ in range(ROUNDS):  # in turn, so that a slower spell of the machine meets both
        for runs, which, seeds in (
            (plain, "plain", plain_seeds),
            (stacked, "stacked", stacked_seeds),
        ):
            chosen = ",".join(str(seed) for seed in seeds)
            runs.append(side("steps", which, preset, chosen, str(steps)))
    return plain, stacked


def _compare(plain: list[dict[str, Any]], stacked: list[dict[str, Any]]) -> tuple[float, list[str]]:
    ratio = median([a["seconds"] / b["seconds"] for a, b in zip(plain, stacked, strict=True)])
    slow, fast = (median([each["seconds"] for each in runs]) for runs in (plain, stacked))
    return ratio, [
        f"plain loop   {1e3 * slow:8.3f} ms a seed and step   {1 / slow:9.1f} seed steps/s",
        f"stacked      {1e3 * fast:8.3f} ms a seed and step   {1 / fast:9.1f} seed steps/s",
    ]


def _plain(preset_name: str, seeds: Sequence[int], steps: int) -> dict[str, Any]:
    """One model at a time, eager, full batch, all tokens."""
    import torch

    from gmb_hf.training.ensemble import initial_model, task_data
    from gmb_hf.training.presets import preset

    config = preset(preset_name)
    losses: dict[str, list[float]] = {}
    spent = 0.0
    for seed in seeds:
        data = task_data(config.task, seed)
        batch = {
            "input_ids": torch.from_numpy(data.input_ids[data.train_index]),
            "labels": torch.from_numpy(data.labels[data.train_index]),
        }
        model = initial_model(config, seed)
        model.set_attn_implementation("eager")
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), **_adamw(config))
        seen = losses.setdefault(str(seed), [])
        for step in range(steps + 2):  # two more, which warm up
            start = time.perf_counter()
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step >= 2:
                spent += time.perf_counter() - start
            seen.append(loss.item())
    return {"seconds": spent / (len(seeds) * steps), "losses": losses}


def _stacked(preset_name: str, seeds: Sequence[int], steps: int) -> dict[str, Any]:
    """The seeds stacked, compiled if the preset's own rule says so."""
    from gmb_hf.training.compiled import wanted
    from gmb_hf.training.ensemble import Ensemble
    from gmb_hf.training.memory import keep_freed_memory
    from gmb_hf.training.presets import preset
    from gmb_hf.training.seeds import parse_seeds

    keep_freed_memory()
    config = preset(preset_name)
    all_seeds = parse_seeds(f"{config.seeds.explore},{config.seeds.evaluate}")
    ensemble = Ensemble(config, seeds, compiled=wanted(config, len(all_seeds)))
    seen = []
    spent = 0.0
    for step in range(steps + 2):
        start = time.perf_counter()
        losses, _ = ensemble.gradients()
        ensemble.update()
        if step >= 2:
            spent += time.perf_counter() - start
        seen.append(losses.tolist())
    by_seed = {str(seed): [row[i] for row in seen] for i, seed in enumerate(seeds)}
    return {"seconds": spent / (len(seeds) * steps), "losses": by_seed}


def _check(preset_name: str) -> dict[str, float]:
    """The largest relative differences of loss and gradients after one forward and backward."""
    import torch

    from gmb_hf.training.ensemble import Ensemble, initial_model, task_data
    from gmb_hf.training.presets import preset

    config = preset(preset_name)
    ensemble = Ensemble(config, [0])
    fast, _ = ensemble.gradients()
    data = task_data(config.task, 0)
    model = initial_model(config, 0)
    model.set_attn_implementation("eager")
    loss = model(
        input_ids=torch.from_numpy(data.input_ids[data.train_index]),
        labels=torch.from_numpy(data.labels[data.train_index]),
    ).loss
    loss.backward()
    worst = 0.0
    for name, parameter in model.named_parameters():
        ours, theirs = ensemble.weights[name].grad, parameter.grad
        assert ours is not None
        assert theirs is not None
        scale = theirs.norm().item()
        if scale > 1e-8:  # a gradient that is rounding alone has no relative error
            worst = max(worst, (ours[0] - theirs).norm().item() / scale)
    return {"loss": abs(fast[0].item() - loss.item()) / loss.item(), "gradient": worst}


def _adamw(config: Any) -> dict[str, Any]:
    training = config.training
    return {
        "lr": training.lr,
        "betas": (training.beta1, training.beta2),
        "eps": training.eps,
        "weight_decay": training.weight_decay,
    }


if __name__ == "__main__":
    which, name, listed, length = sys.argv[1:]
    chosen_seeds = [int(seed) for seed in listed.split(",")]
    sides = {"plain": _plain, "stacked": _stacked}
    found = _check(name) if which == "check" else sides[which](name, chosen_seeds, int(length))
    print(json.dumps(found))
