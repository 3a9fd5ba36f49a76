"""The presets: functions that return a config.

| preset       | for                                                                          |
|--------------|------------------------------------------------------------------------------|
| smoke        | tests: seconds, nothing to conclude                                          |
| quick        | the whole story in minutes; most honest verdicts stay INCONCLUSIVE           |
| standard     | the same task with runs enough for conclusive verdicts                       |
| hierarchical | a recurrent model, a fast block in cycles of a slow one, as quick            |
| formal       | a formal language, learned soon: short runs and windows                      |
| icl          | in-context learning: examples in the prompt are copied by what they are      |
| paper        | p = 97, two layers, width 128, the evaluation protocol's hyperparameters     |
| reference    | as the reference project's published runs: noisy labels, little weight decay |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gmb_hf.base.errors import choose
from gmb_hf.design.design import Design
from gmb_hf.design.power import draws_needed
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.config import (
    DesignSettings,
    ModelSettings,
    RunConfig,
    SeedSettings,
    TaskSettings,
    TrainingSettings,
)


def judged_by_accuracy(
    *, window: int, jump: float, floor: float, new_max: bool, level: float = 0.5
) -> dict[str, Any]:
    """Fields of the design: accuracy `level` held for 5 checkpoints, and two other events.

    Half of the jumps on these runs begin at the bottom of a short loss spike, which nothing can
    foresee, so that a level that is held is the event; the jump stays beside it.
    """
    jumps = {"x_theta_floor": floor, "x_require_new_max": new_max}
    held = {"x_plateau_threshold": 0.9, "x_plateau_checkpoints": 5}
    return {
        "event_type": "E_plateau",
        "plateau_threshold": level,
        "plateau_checkpoints": 5,
        "also_events": [
            {"type": "E_jump", "window_W_event": window, "jump_threshold": jump, **jumps},
            {"type": "E_plateau", **held},
        ],
    }


def standard() -> RunConfig:
    """Subtraction modulo 29, one layer of width 48: memorised at once, known much later, suddenly.

    Without layer norm the training rows are memorised within 100 steps and stay so: one checkpoint
    in 500 is a loss spike. A learning rate that is large for it keeps the weights moving, so that
    held-out accuracy leaves chance after a wait that differs by a factor of 11 from run to run. On
    64 runs that no panel and no preset uses, accuracy at memorisation is .01, .5 comes after 22
    times as many steps, and the rise from .2 to .8 takes .31 of that delay (medians); 62 reach .9.

    Accuracy leaves .15 in the median 360 steps before it comes to .5, in three runs of four 820 at
    most: what rises with it lies within the safe gap. A run ends 500 steps after it held .9.
    """
    return RunConfig(
        preset="standard",
        task=TaskSettings(operation="sub", prime=29, train_fraction=0.6),
        model=ModelSettings(
            layers=1,
            heads=4,
            width=48,
            mlp_width=128,
            activation="relu",
            initializer_range=0.18,
            layer_norm=False,
        ),
        training=TrainingSettings(
            steps=8000,
            checkpoint_every=25,
            lr=7e-3,
            weight_decay=1.2,
            seeds_at_once=32,
            stop_after=500,
        ),
        benchmark=DesignSettings.of(
            primary_fpr=0.05,
            combination=True,
            horizon=400,
            safe_gap=800,
            burn_in=100,
            window_sweep=(150, 200, 250),
            **judged_by_accuracy(window=200, jump=0.2, floor=0.5, new_max=True),
        ),
        seeds=SeedSettings(explore="0:384", evaluate="50000:50256"),
    )


def quick() -> RunConfig:
    """The training of `standard` with 32 explore and 40 held-out runs; one in ten may be false."""
    base = standard()
    return base.replace(
        preset="quick",
        benchmark=base.benchmark.replace(primary_fpr=0.10),
        seeds=SeedSettings(explore="0:32", evaluate="10000:10040"),
    )


def smoke() -> RunConfig:
    """A few short runs, for tests of the machinery; most of them jump within their 400 steps."""
    return RunConfig(
        preset="smoke",
        task=TaskSettings(operation="add", prime=19, train_fraction=0.8),
        model=ModelSettings(layers=1, heads=2, width=32, mlp_width=32),
        training=TrainingSettings(steps=400, checkpoint_every=10, lr=1e-2, weight_decay=1.0),
        benchmark=DesignSettings.of(
            horizon=60,
            safe_gap=80,
            burn_in=20,
            primary_fpr=0.1,
            **judged_by_accuracy(window=50, jump=0.15, floor=0.7, new_max=False),
        ),
        # A budget of 1 run in 20 takes 19 explore runs with negative windows.
        seeds=SeedSettings(explore="0:24", evaluate="1000:1010"),
    )


def hierarchical() -> RunConfig:
    """Subtraction modulo 23 by a model of two blocks with two time scales, and with halting.

    A step costs about as much as five of a model that applies each block once, so the task is
    smaller than that of `quick`. Weights that act again and again make the loss spike; more decay
    and a longer memory of the squared gradient keep that rarer. Runs jump sooner, so the windows
    are shorter.
    """
    return RunConfig(
        preset="hierarchical",
        task=TaskSettings(operation="sub", prime=23, train_fraction=0.8),
        model=ModelSettings(
            layers=2,
            heads=4,
            width=32,
            mlp_width=64,
            activation="relu",
            initializer_range=0.1,
            cycles=2,
            inner_steps=2,
            halting=True,
        ),
        training=TrainingSettings(
            steps=1500,
            checkpoint_every=10,
            lr=1.5e-3,
            weight_decay=2.0,
            beta2=0.99,
            seeds_at_once=12,
        ),
        benchmark=DesignSettings.of(
            primary_fpr=0.10,
            combination=True,
            horizon=100,
            safe_gap=150,
            burn_in=100,
            **judged_by_accuracy(window=100, jump=0.2, floor=0.5, new_max=True),
        ),
        seeds=SeedSettings(explore="0:32", evaluate="10000:10040"),
    )


def formal() -> RunConfig:
    """Reversing eight symbols, by the model of `smoke`; learned within some hundred steps.

    Another language is `--set task.name=copy_8`. The windows are as short as the runs.
    """
    base = smoke()
    return base.replace(
        preset="formal",
        task=TaskSettings(name="reverse_8", train_fraction=0.8),
        training=base.training.replace(lr=2e-3),
        benchmark=base.benchmark.replace(horizon=30, safe_gap=40, burn_in=0),
    )


def icl() -> RunConfig:
    """The emergence of in-context learning: what followed an x before follows it again.

    Every row has a list of two or three pairs of its own that comes again, so that an answer is
    found by what the prompt holds; held-out rows have pairs that no training row has. The model of
    `smoke` with a second layer, without which none can copy so. After some 85 steps it guesses
    among the answers of the prompt, with which .42 are right, and stays there until it copies. On
    48 runs that the preset does not use, accuracy .7 comes after 105 to 300 steps (median 145),
    .8 ten steps after it, and one run never gets there: the training rows are memorised first.
    """
    base = smoke()
    return base.replace(
        preset="icl",
        task=TaskSettings(name="copy_rule_p11_k5", train_fraction=0.8),
        model=base.model.replace(layers=2, mlp_width=64, initializer_range=0.1),
        training=base.training.replace(
            steps=320,
            checkpoint_every=5,
            lr=1e-3,
            seeds_at_once=12,
            stop_after=60,
        ),
        benchmark=DesignSettings.of(
            primary_fpr=0.10,
            combination=True,
            horizon=40,
            safe_gap=60,
            burn_in=10,
            window_sweep=(20, 30, 40),
            # Half-way from guessing among the answers of the prompt to knowing.
            **judged_by_accuracy(level=0.7, window=30, jump=0.2, floor=0.5, new_max=False),
        ),
        seeds=SeedSettings(explore="0:48", evaluate="10000:10040"),
    )


def paper() -> RunConfig:
    """The evaluation protocol's addition task, hyperparameters and split (phase 2a).

    The event is the specification's own, E_jump, as it is where the published runs are repeated.
    """
    return RunConfig(
        preset="paper",
        task=TaskSettings(operation="add", prime=97, train_fraction=0.5, data_seed=42),
        model=ModelSettings(
            layers=2, heads=4, width=128, mlp_width=512, activation="gelu_new", tied=True
        ),
        training=TrainingSettings(
            steps=50_000, checkpoint_every=100, lr=1e-3, weight_decay=1.0, seeds_at_once=8
        ),
        benchmark=DesignSettings.of(
            w_event=200, horizon=1000, safe_gap=2000, burn_in=500, window_sweep=(400, 500, 600)
        ),
        seeds=SeedSettings(explore="0:136", evaluate="1000:1256"),
    )


def reference() -> RunConfig:
    """The reference project's setting: 10% wrong labels, 4,000 rows, weight decay .01.

    The event stays the published jump: with wrong labels a level of .5 says little.
    """
    base = paper()
    return base.replace(
        preset="reference",
        task=TaskSettings(operation="add", prime=97, train_rows=4000, corruption_rate=0.1),
        training=base.training.replace(steps=300_000, checkpoint_every=500, weight_decay=0.01),
        benchmark=DesignSettings.of(
            w_event=1000,
            jump_threshold=0.04,
            theta_floor=0.85,
            horizon=20_000,
            safe_gap=25_000,
            burn_in=10_000,
            window_sweep=(8000, 10_000, 12_000),
        ),
    )


def design_of(
    config: RunConfig, log: RunLog, fields: Mapping[str, Any] = MappingProxyType({})
) -> Design:
    """The design that a config fixes, with every indicator that the log can feed as candidate.

    Where the config asks for it and the explore runs can carry the fit, all of them that see no
    test label are two candidates more, combined by a regression and by trees. `log` are the
    explore runs, whose metadata name task, model and optimizer; `fields` of the design, by its
    names, are to be different.
    """
    from gmb_hf.benchmark.ensembles import combinations_of
    from gmb_hf.benchmark.prepare import available_candidates, boundary_of

    candidates, boundary = available_candidates(log), boundary_of(log)
    design = config.design_on(boundary=boundary, candidates=candidates, fields=fields)
    if config.benchmark.combination:
        candidates += combinations_of(design, log)
        design = config.design_on(boundary=boundary, candidates=candidates, fields=fields)
    # With all signals of the survey none could pass by the usual number of draws.
    least = draws_needed(len(candidates) * (1 + len(design.strata)), design.alpha_per_look)
    if least <= design.null_draws or "null_draws" in fields:
        return design
    return design.replace(null_draws=2 * least)


PRESETS: dict[str, Callable[[], RunConfig]] = {
    function.__name__: function
    for function in (smoke, quick, standard, hierarchical, formal, icl, paper, reference)
}


def preset(name: str) -> RunConfig:
    """The config of that name; an unknown one is an `InputError` that names the nearest."""
    return PRESETS[choose("preset", name, tuple(PRESETS))]()
