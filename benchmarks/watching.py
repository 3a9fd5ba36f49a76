"""M1: what the Trainer's callback costs between checkpoints, and the same weights with and without.

`python -m benchmarks.watching FOLDER` trains the smoke preset by the HF Trainer, watched by the
lock and the results in FOLDER with every observable collected, and prints seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.commands import GMB
from benchmarks.harness import Line, median, side, timed

STEPS = 200
ROUNDS = 3
SEED = 60_000  # trained by no preset


def m1() -> Line:
    """The callback's own time after an update that is no checkpoint, over the time of a step."""
    with tempfile.TemporaryDirectory() as folder:
        timed([GMB, "run", "--preset", "smoke", "--out", folder])
        found = [side("watching", folder) for _ in range(ROUNDS)]
    share = median([each["between"] / each["step"] for each in found])
    last = found[-1]
    same = all(each["same"] for each in found)
    details = [
        f"{1e6 * last['between']:.1f} us after an update of {1e3 * last['step']:.2f} ms; "
        f"a checkpoint {1e3 * last['checkpoint']:.1f} ms, {last['columns']} observables, every "
        f"{last['cadence']} updates",
        "weights with and without the callback are " + ("equal" if same else "NOT equal"),
    ]
    return Line("M1", f"{share:.2%}", "< 1%", share < 0.01 and same, details)


def _measure(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import Trainer, TrainingArguments

    from gmb_hf.monitor.callback import GMBCallback
    from gmb_hf.monitor.observe import Parts
    from gmb_hf.training.presets import preset
    from gmb_hf.training.stacked import initial_model

    config = preset("smoke")
    task = config.task
    splits = task.build().to_dataset_dict(task.share, task.data_seed_of(SEED))
    train, test = (splits[name].select_columns(["input_ids", "labels"]) for name in splits)
    batch = train.with_format("torch")[:]

    class Timed(GMBCallback):
        """Notes how long each call takes."""

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> Any:
            ended = time.perf_counter()
            answer = super().on_step_end(args, state, control, **given)
            now = time.perf_counter()
            spent.append((state.global_step, ended - began[-1], now - ended))
            return answer

        def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            began.append(time.perf_counter())

    def trained(*callbacks: Any) -> Any:
        arguments = TrainingArguments(
            output_dir=str(folder / "trained"),
            max_steps=STEPS,
            per_device_train_batch_size=len(train),
            learning_rate=config.training.lr,
            weight_decay=config.training.weight_decay,
            lr_scheduler_type="constant",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        model = initial_model(config, SEED)
        Trainer(model, arguments, lambda rows: batch, train, callbacks=list(callbacks)).train()
        return model

    began: list[float] = []
    spent: list[tuple[int, float, float]] = []
    callback = Timed(
        folder / "lock.yaml",
        folder / "results.yaml",
        show=_measurable(folder / "lock.yaml"),
        heldout=test,
        train=train,
        parts=Parts(residues=task.prime),
        system="as locked",
    )
    watched, plain = trained(callback), trained()
    monitor = callback.watch.monitor
    if callback.watch.failed is not None:
        raise RuntimeError(callback.watch.failed)
    settled = [row for row in spent if row[0] > STEPS // 4]
    return {
        "step": median([step for _, step, _ in settled]),
        "between": median([own for at, _, own in settled if at % monitor.cadence]),
        "checkpoint": median([own for at, _, own in settled if not at % monitor.cadence]),
        "cadence": monitor.cadence,
        "columns": len({*monitor.needs, *monitor.shown_needs}),
        "same": all(
            torch.equal(a, b) for a, b in zip(watched.parameters(), plain.parameters(), strict=True)
        ),
    }


def _measurable(lock: Path) -> list[str]:
    """The candidates of a lock whose columns a model shows by itself."""
    from gmb_hf import Lock
    from gmb_hf.monitor.observe import COLLECTED

    candidates = Lock.read(lock).x_lock.candidates
    return [name for name, one in candidates.items() if {*COLLECTED, "step"}.issuperset(one.needs)]


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]))))
