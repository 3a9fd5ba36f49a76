"""Tasks as datasets: one config each, split as the protocol splits them, and unsplit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gmb_hf.tasks import OPERATIONS, FormalTask, ModularTask, Task, get_task, task_names
from gmb_hf.validation import InputError
from gmb_hf.workflows.building import About, Config

LICENSE = "apache-2.0"
MODULAR = About(
    "Modular arithmetic",
    "Every pair of residues once: `BOS a OP b EQ c EOS EOS`. `labels` are -100 off the answer.\n"
    "`full` is every row, from which a run draws its own split.",
    ("gmb", "grokking", "modular-arithmetic"),
)
FORMAL = About(
    "Formal languages over bits",
    "Every input of a length once: parity, copy, reverse, majority, padded with EOS. `labels`\n"
    "are -100 off the answer. `full` is every row, from which a run draws its own split.",
    ("gmb", "grokking", "formal-languages"),
)


def modular_configs(
    tasks: Sequence[str] = (),
    *,
    data_seed: int = 42,
    fraction: float = 0.5,
    op_token: str = "distinct",
) -> list[Config]:
    """A config for each modular task; none named, those of every operation modulo 97.

    Args:
        tasks: names such as `add_p97`.
        data_seed, fraction: of the splits `train` and `test`.
        op_token: "distinct": each operation has its own token; "shared": all have one.

    Raises:
        InputError: an unknown task, one that is no modular task, or a bad split.
    """
    names = tasks or [name for name in task_names() if name.rpartition("_p")[0] in OPERATIONS]
    chosen = [_of_kind(get_task(name), ModularTask) for name in names]
    return [_config(get_task(task.name, op_token=op_token), data_seed, fraction) for task in chosen]


def formal_configs(
    tasks: Sequence[str] = (), *, data_seed: int = 42, fraction: float = 0.5
) -> list[Config]:
    """A config for each formal task; none named, those of the protocol, `parity_8` and so on.

    Raises:
        InputError: an unknown task, one that is no formal task, or a bad split.
    """
    names = tasks or [name for name in task_names() if name.rpartition("_p")[0] not in OPERATIONS]
    chosen = [_of_kind(get_task(name), FormalTask) for name in names]
    return [_config(task, data_seed, fraction) for task in chosen]


def unsplit_config(task: Task) -> Config:
    """A task whose runs draw their own splits: `full` alone."""
    return Config(task.name, {"full": lambda: [task.full_table()]}, LICENSE, "every row, unsplit")


def _of_kind(task: Task, kind: type[Task]) -> Task:
    if not isinstance(task, kind):
        other = "modular" if isinstance(task, ModularTask) else "formal"
        raise InputError(f"task {task.name!r} is built by `gmb data build {other}`")
    return task


def _config(task: Task, data_seed: int, fraction: float) -> Config:
    tables = {**task.split_tables(fraction, data_seed), "full": task.full_table()}
    return Config(
        task.name,
        {split: partial(list, [table]) for split, table in tables.items()},
        LICENSE,
        f"{task.vocab_size} token ids, {task.sequence_length} a row; {fraction:g} of the rows to "
        f"train on, drawn by seed {data_seed}",
        data_seed,
    )
