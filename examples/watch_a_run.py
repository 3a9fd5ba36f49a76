"""Watch two trainings by the HF Trainer: one alarms before it jumps, one is measured wrongly.

    gmb run --preset standard --out runs/standard        # once: what is an alarm? minutes
    python examples/watch_a_run.py --lock runs/standard/lock.yaml --out runs/watched

Both train a seed that no explore or held-out run had, the whole schedule of the preset. In the
first the alarm saves a checkpoint. In the second the code that measures goes wrong at step 400: it
keeps reading the embedding of that step, as from a stale copy. Its score then says that nothing
happens, for ever; the monitor does not believe it and abstains.

One update of this small model takes the Trainer about 20 ms on one CPU core, so both runs take some
two minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from transformers import Trainer, TrainingArguments

from gmb_hf import Lock, RunLog, preset
from gmb_hf.benchmark.events import find_events
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.monitor.callback import LOG_FILE, GMBCallback
from gmb_hf.report import style
from gmb_hf.training.ensemble import adamw, initial_model
from gmb_hf.training.observables import spectral_entropy
from gmb_hf.training.seeds import log_metadata

INDICATOR = "embedding_entropy_drop"
FRESH_SEEDS = (50_001, 50_003)  # neither explored nor judged by any preset
STALE_FROM = 400
SHOWN = 4  # times the threshold; scores rise further once the model has jumped
COLOURS = {"ALARM": style.VERMILION, "ABSTAIN": style.MUTED}


class StaleCopy:
    """The entropy of the embedding, from a copy that is no longer renewed after some step."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._copy = torch.empty(0)

    def __call__(self, model: Any, step: int) -> Mapping[str, float]:
        """What the callback is told in place of its own measurement."""
        if step <= self._last:
            self._copy = model.get_input_embeddings().weight.detach().clone()
        return {"embedding_entropy": float(spectral_entropy([self._copy.unsqueeze(0)]))}


def train_watched(
    lock: Path,
    results: Path,
    seed: int,
    folder: Path,
    extra: Callable[[Any, int], Mapping[str, float]] | None = None,
) -> GMBCallback:
    """Train one seed of the preset by the Trainer, under watch; its callback."""
    config = preset("standard")
    about = log_metadata(config)
    splits = config.task.build().to_dataset_dict(config.task.share, config.task.data_seed_of(seed))
    train, heldout = (splits[name].select_columns(["input_ids", "labels"]) for name in splits)
    callback = GMBCallback(
        lock,
        results,
        action="checkpoint",
        act=[INDICATOR],
        show=["test_accuracy"],  # an oracle, for the picture: it cannot raise the alarm
        heldout=heldout,
        system={name: about[name] for name in ("task", "model", "optimizer", "schedule")},
        extra=extra,
    )
    model = initial_model(config, seed)
    optimizer = adamw(dict(model.named_parameters()), own_parameter_names(model), config.training)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=config.training.steps,
        per_device_train_batch_size=len(train),  # full batch, as the runs of the lock
        max_grad_norm=0,
        save_strategy="no",  # but for the alarm's
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=seed,
    )
    batch = train.with_format("torch")[:]
    trainer = Trainer(
        model,
        arguments,
        lambda rows: batch,
        train,
        optimizers=(optimizer, constant),
        callbacks=[callback],
    )
    trainer.train()
    return callback


def jump_of(lock: Path, folder: Path) -> int | None:
    """The step of the event in a watched run, by the definition that the lock holds."""
    log = RunLog.read(folder / LOG_FILE)
    step = find_events(log, Lock.read(lock).design).step[0]
    return int(step) if math.isfinite(step) else None


def draw(lock: Path, folders: Sequence[Path]) -> Figure:
    """Held-out accuracy above, score and state below; one column a run."""
    titles = ("As it is", f"The embedding that is measured stays that of step {STALE_FROM}")
    threshold = Lock.read(lock).thresholds(INDICATOR)[Lock.read(lock).design.primary_fpr]
    with style.house_style():
        figure = style.new_figure(8.6, 4.2)
        grid = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(1, 1.5))
        for column, (folder, title) in enumerate(zip(folders, titles, strict=True)):
            rows = [json.loads(line) for line in (folder / LOG_FILE).read_text().splitlines()]
            steps = [row["step"] for row in rows]
            above, below = grid[0, column], grid[1, column]
            above.set_title(title)
            above.plot(steps, [row["test_acc"] for row in rows], color=style.INK)
            scores = [row[f"{INDICATOR}.score"] for row in rows]
            below.plot(steps, [float("nan") if s is None else s for s in scores], color=style.BLUE)
            below.axhline(threshold, color=style.ORANGE, linestyle="--")
            below.set_ylim(-0.1 * threshold, SHOWN * threshold)
            _mark_states(below, rows)
            _mark_moments(above, below, rows, jump_of(lock, folder))
            style.step_axis(below, "step")
        grid[0, 0].set_ylabel("held-out accuracy")
        grid[1, 0].set_ylabel(INDICATOR)
        grid[1, 1].annotate(
            "threshold", (2500, threshold), ha="right", va="bottom", color=style.ORANGE
        )
    return figure


def _mark_states(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    width = rows[1]["step"] - rows[0]["step"]
    for state, colour in COLOURS.items():
        first = True
        for row in rows:
            if row["state"] == state:
                label = state if first else None
                axes.axvspan(
                    row["step"], row["step"] + width, color=colour, alpha=0.25, lw=0, label=label
                )
                first = False
    axes.legend(loc="upper left")


def _mark_moments(
    above: Axes, below: Axes, rows: Sequence[Mapping[str, Any]], jump: int | None
) -> None:
    moments = {"jump": (jump, style.GREEN)}
    for state, words in (("ALARM", "alarm"), ("ABSTAIN", "abstains")):
        first = next((row["step"] for row in rows if row["state"] == state), None)
        moments[words] = (first, COLOURS[state])
    for place, (words, (step, colour)) in enumerate(moments.items()):
        if step is None:
            continue
        for axes in (above, below):
            axes.axvline(step, color=colour, linewidth=1)
        side = "left" if place == 0 else "right"
        above.annotate(f" {words} {step:,} ", (step, 0.5 if place else 0.2), ha=side, color=colour)


def main() -> None:
    """Train both, say what happened, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--results", type=Path, help="beside the lock by default")
    parser.add_argument("--out", type=Path, default=Path("runs/watched"))
    parser.add_argument("--picture", type=Path, help="without a suffix; OUT/watch by default")
    parser.add_argument("--only-draw", action="store_true", help="what an earlier call trained")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    results = options.results or options.lock.with_name("results.yaml")
    folders = [options.out / name for name in ("as_it_is", "stale")]
    if not options.only_draw:
        for seed, folder, extra in zip(
            FRESH_SEEDS, folders, (None, StaleCopy(STALE_FROM)), strict=True
        ):
            print(f"seed {seed}, {folder}")
            callback = train_watched(options.lock, results, seed, folder, extra)
            print(f"first alarm: {callback.watch.acted}; jump: {jump_of(options.lock, folder)}")
    picture = options.picture or options.out / "watch"
    print("wrote", *style.save_figure(draw(options.lock, folders), picture, formats=("png",)))


if __name__ == "__main__":
    main()
