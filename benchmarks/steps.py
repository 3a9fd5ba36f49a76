"""T1, T1v and T2: the exact short forward against the project's own model on all eight tokens.

A side runs in its own process: `python -m benchmarks.steps SIDE PRESET SEEDS STEPS VARIANT` trains
and prints seconds per seed and step, and the losses on the way.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Line, median, side

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig

ROUNDS = 3
SIDES = ("plain", "stacked")
PLAIN_SEEDS = (0, 1, 2)
LOSS_TOLERANCE, EARLY = 1e-5, 10  # relative, over so many first steps in float32
EXACT_TOLERANCE = 1e-9  # relative, over 50 steps in float64
GRADIENT_TOLERANCE = 1e-5
VARIANTS = ("banded-16", "blend-8", "hebbian-4")
REPORTED = ("sort-4",)  # its last layer is needed at every position: no share is promised
KEPT = 0.5  # of the dense model's ratio


def t1() -> Line:
    """Seeds x steps per second of the quick preset, over 50 steps.

    Both sides must compute the same: losses equal to 1e-5 relative over the first 10 steps in
    float32, where rounding grows after (a ReLU unit on its kink for a row goes either way), and to
    1e-9 over 50 steps in float64. Where they do not, the measurement is wrong, whatever the ratio.
    """
    ratio, equal, details = _quick("dense")
    return Line(
        "T1", f"{ratio:.1f}x" if equal else "WRONG", ">= 25x", ratio >= 25 and equal, details
    )


def t1v() -> Line:
    """T1 of every variant; the worst of those promised, as a share of the dense model's ratio."""
    dense, equal, details = _quick("dense")
    details = [f"dense        {dense:.1f}x", *details]
    shares = []
    for variant in (*VARIANTS, *REPORTED):
        ratio, same, more = _quick(variant)
        details += [f"{variant:<12} {ratio:.1f}x, {ratio / dense:.2f} of the dense one's", *more]
        equal &= same
        if variant in VARIANTS:
            shares.append(ratio / dense)
    passed = min(shares) >= KEPT and equal
    value = f"{min(shares):.2f}" if equal else "WRONG"
    return Line("T1v", value, f">= {KEPT:g}", passed, details)


def t2() -> Line:
    """One step of the 2-layer p=97 model, loss and gradients equal to 1e-5 relative."""
    plain, stacked = _rounds("paper", [0], [0], "dense", steps=4)
    ratio, details = _compare(plain, stacked)
    check = side("steps", "check", "paper", "0", "1", "dense")
    details.append(f"loss differs by {check['loss']:.1e}, gradients by {check['gradient']:.1e}")
    equal = check["loss"] <= GRADIENT_TOLERANCE and check["gradient"] <= GRADIENT_TOLERANCE
    return Line("T2", f"{ratio:.1f}x", ">= 9x", ratio >= 9 and equal, details)


def _quick(variant: str) -> tuple[float, bool, list[str]]:
    """The ratio, whether both sides computed the same losses, and the figures."""
    plain, stacked = _rounds("quick", PLAIN_SEEDS, range(36), variant, steps=50)
    early = differ(plain[-1]["losses"], stacked[-1]["losses"], steps=EARLY)
    chosen = ",".join(map(str, PLAIN_SEEDS))
    exact = [side("steps", f"{one}64", "quick", chosen, "50", variant) for one in SIDES]
    worst = differ(exact[0]["losses"], exact[1]["losses"])
    ratio, details = _compare(plain, stacked)
    details.append(
        f"losses differ by {early:.1e} at most over {EARLY} steps, by {worst:.1e} over 50 in "
        "float64, relative"
    )
    return ratio, early <= LOSS_TOLERANCE and worst <= EXACT_TOLERANCE, details


def differ(
    plain: Mapping[str, Sequence[float]],
    stacked: Mapping[str, Sequence[float]],
    *,
    steps: int | None = None,
) -> float:
    """The largest relative difference of losses by seed, over the first `steps` or all."""
    return max(
        abs(a - b) / a
        for seed, losses in plain.items()
        for a, b in zip(losses[:steps], stacked[seed][:steps], strict=True)
    )


def _rounds(
    preset: str,
    plain_seeds: Sequence[int],
    stacked_seeds: Sequence[int],
    variant: str,
    *,
    steps: int,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    plain: list[dict[str, Any]] = []
    stacked: list[dict[str, Any]] = []
    for _ in range(ROUNDS):  # in turn, so that a slower spell of the machine meets both
        for runs, which, seeds in (
            (plain, "plain", plain_seeds),
            (stacked, "stacked", stacked_seeds),
        ):
            chosen = ",".join(str(seed) for seed in seeds)
            runs.append(side("steps", which, preset, chosen, str(steps), variant))
    return plain, stacked


def _compare(plain: list[dict[str, Any]], stacked: list[dict[str, Any]]) -> tuple[float, list[str]]:
    ratio = median([a["seconds"] / b["seconds"] for a, b in zip(plain, stacked, strict=True)])
    slow, fast = (median([each["seconds"] for each in runs]) for runs in (plain, stacked))
    return ratio, [
        f"plain loop   {1e3 * slow:8.3f} ms a seed and step   {1 / slow:9.1f} seed steps/s",
        f"stacked      {1e3 * fast:8.3f} ms a seed and step   {1 / fast:9.1f} seed steps/s",
    ]


def _config(preset_name: str, variant: str) -> RunConfig:
    from gmb_hf.training.presets import preset
    from gmb_hf.training.variants import parse_variant

    fields = parse_variant(variant).fields
    return preset(preset_name).changed(f"model.{name}={value}" for name, value in fields.items())


def _plain(
    config: RunConfig, seeds: Sequence[int], steps: int, *, double: bool = False
) -> dict[str, Any]:
    """One model at a time, eager, full batch, all tokens."""
    import torch

    from gmb_hf.modeling.mixers import own_parameter_names
    from gmb_hf.training.stacked import adamw, initial_model, task_data

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
        model = model.double() if double else model
        named = dict(model.named_parameters())
        optimizer = adamw(named, own_parameter_names(model), config.training)
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


def _stacked(
    config: RunConfig, seeds: Sequence[int], steps: int, *, double: bool = False
) -> dict[str, Any]:
    """The seeds stacked, compiled if the preset's own rule says so."""
    import torch

    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import keep_freed_memory
    from gmb_hf.training.stacked import SeedStack, wanted

    keep_freed_memory()
    all_seeds = parse_seeds(f"{config.seeds.explore},{config.seeds.evaluate}")
    kind: Any = {"compiled": wanted(config, len(all_seeds))}
    stack = SeedStack(config, seeds, **({"dtype": torch.float64} if double else kind))
    seen = []
    spent = 0.0
    for step in range(steps + 2):
        start = time.perf_counter()
        losses, _ = stack.gradients()
        stack.update()
        if step >= 2:
            spent += time.perf_counter() - start
        seen.append(losses.tolist())
    by_seed = {str(seed): [row[i] for row in seen] for i, seed in enumerate(seeds)}
    return {"seconds": spent / (len(seeds) * steps), "losses": by_seed}


def _check(config: RunConfig) -> dict[str, float]:
    """The largest relative differences of loss and gradients after one forward and backward."""
    import torch

    from gmb_hf.training.stacked import SeedStack, initial_model, task_data

    stack = SeedStack(config, [0])
    fast, _ = stack.gradients()
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
        ours, theirs = stack.weights[name].grad, parameter.grad
        assert ours is not None
        assert theirs is not None
        scale = theirs.norm().item()
        if scale > 1e-8:  # a gradient that is rounding alone has no relative error
            worst = max(worst, (ours[0] - theirs).norm().item() / scale)
    return {"loss": abs(fast[0].item() - loss.item()) / loss.item(), "gradient": worst}


if __name__ == "__main__":
    which, name, listed, length, chosen_variant = sys.argv[1:]
    chosen_seeds = [int(seed) for seed in listed.split(",")]
    chosen_config = _config(name, chosen_variant)
    sides = {"plain": _plain, "stacked": _stacked}
    if which == "check":
        found: dict[str, Any] = _check(chosen_config)
    else:
        double = which.endswith("64")
        one = sides[which.removesuffix("64")]
        found = one(chosen_config, chosen_seeds, int(length), double=double)
    print(json.dumps(found))
