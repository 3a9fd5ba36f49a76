"""The main job: data, training, explore, lock, evaluate, report, in one folder that resumes.

OUT/data/         the task as Parquet with a card
OUT/logs/         run logs          OUT/explore.csv   both signs of every candidate
OUT/lock.yaml     the sealed design OUT/results.yaml  tables/ figures/ report.md
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.preregistration.documents import canonical_hash
from gmb_hf.preregistration.lock import Lock
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.training.config import RunConfig
from gmb_hf.training.seeds import parse_seeds
from gmb_hf.validation import InputError
from gmb_hf.workflows.data import write_data
from gmb_hf.workflows.design import prereg_from_config
from gmb_hf.workflows.evaluating import Evaluation, evaluate_lock
from gmb_hf.workflows.exploring import explore, write_explored
from gmb_hf.workflows.locking import make_lock
from gmb_hf.workflows.publishing import publish
from gmb_hf.workflows.sources import explore_part, held_out_part
from gmb_hf.workflows.training import train_seeds

Counting = Callable[[str, int | None], AbstractContextManager[Callable[[str], None]]]
"""Shows how many of so many items are done, e.g. `cli.show.counting`."""


@dataclass(frozen=True)
class Finished:
    """What the main job left.

    Attributes:
        evaluation: of the held-out runs.
        paths: the files to look at, the report first.
        note: a remark for the reader, or None.
        following: the command to type next.
    """

    evaluation: Evaluation
    paths: list[Path]
    note: str | None
    following: str


def run_everything(
    config: RunConfig, out: str | Path, *, device: str = "auto", counting: Counting
) -> Finished:
    """Do the main job in `out`; what an earlier start finished is not done again.

    Raises:
        InputError: the folder belongs to another config or design, the design is unsound, or the
            folder cannot be written to.
    """
    folder = Path(out)
    explore_seeds = parse_seeds(config.seeds.explore)
    held_out_seeds = parse_seeds(config.seeds.evaluate)
    train_seeds(config, [*explore_seeds, *held_out_seeds], folder, device=device)
    data = write_data(config, folder / "data")
    log = RunLog.read(folder / "logs")
    prereg = prereg_from_config(config, log)
    explored, _ = explore_part(log, prereg)
    count = len(prereg.candidates) + 2
    with counting("exploring", count) as done:
        table = write_explored(explore(prereg, explored, on_done=done), folder / "explore.csv")
    lock_path = folder / "lock.yaml"
    with counting("locking", count) as done:
        lock = _locked(lock_path, prereg, explored, done)
    held_out, _ = held_out_part(log, prereg)
    with counting("judging", count) as done:
        evaluation = evaluate_lock(lock, held_out, lock_path="lock.yaml", on_done=done)
    note = _note(config, evaluation)
    following = (
        "gmb run --preset standard --out runs/standard"
        if config.preset in ("quick", "smoke")
        else f"gmb lock --explain --lock {lock_path}"
    )
    written = publish(evaluation, folder, note=note, next_command=following)
    return Finished(evaluation, [*written, lock_path, table, *data], note, following)


def _locked(path: Path, prereg: Prereg, explored: RunLog, done: Callable[[str], None]) -> Lock:
    """The lock of this design; one that is there must be of the same design and runs."""
    if path.exists():
        held = Lock.read(path)
        same_design = canonical_hash(held.prereg.plain()) == canonical_hash(prereg.plain())
        if not same_design or held.x_lock.explore_fingerprint != explored.fingerprint():
            raise InputError(
                f"{path}: this folder was locked with another design or other explore runs; "
                "choose another --out: held-out runs are judged once, by the design locked first"
            )
        return held
    lock, _ = make_lock(prereg, explored, on_done=done)
    lock.write(path)
    return lock


def _note(config: RunConfig, evaluation: Evaluation) -> str | None:
    """Why a small preset leaves verdicts open, and what settles them."""
    if config.preset not in ("quick", "smoke"):
        return None
    runs = evaluation.results.summary.n_seeds
    return (
        f"With {runs} held-out runs an honest interval is wide, so most verdicts stay "
        "INCONCLUSIVE. `gmb run --preset standard --out runs/standard` judges the same scores on "
        "256 held-out runs, and concludes."
    )
