"""The main job: data, training, explore, lock, evaluate, report, in one folder that resumes.

OUT/data/         the task as Parquet with a card
OUT/logs/         run logs          OUT/explore.csv   both signs of every candidate
OUT/lock.yaml     the locked design OUT/results.yaml  tables/ figures/ report.* curves.json
OUT/models/       a held-out model  OUT/card/         its model card
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock
from gmb_hf.benchmark.locking import explore, make_lock, write_explored
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.design.lint import DesignFacts, lint, refuse_unsound
from gmb_hf.design.lock import Lock
from gmb_hf.hub.datasets import write_data
from gmb_hf.hub.models import read_saved_model, write_model_card
from gmb_hf.hub.sources import part_of
from gmb_hf.report.report import publish
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.config import RunConfig, parse_seeds
from gmb_hf.training.folder import finished_seeds, model_folder
from gmb_hf.training.presets import design_of, preset
from gmb_hf.training.seeds import train_seeds
from gmb_hf.training.settings import first_difference

_FOLLOWING = {
    "smoke": "gmb run --preset quick --out runs/quick",
    "quick": "gmb run --preset standard --out runs/standard",
}

Counting = Callable[[str, int | None], AbstractContextManager[Callable[[str], None]]]
"""Shows how many of so many items are done, e.g. `cli.show.counting`."""


@dataclass(frozen=True)
class Finished:
    """What the main job left: files to look at, the report first, and the command to type next.

    `warnings` are of the design's linter, where it was locked just now; `note` is for the reader.
    """

    evaluation: Evaluation
    paths: list[Path]
    warnings: tuple[str, ...]
    note: str | None
    following: str


def run(
    config: RunConfig | str,
    out: str | Path,
    *,
    device: str = "auto",
    jobs: int | None = 1,
    figures: bool = True,
    counting: Counting | None = None,
    track: Sequence[str] = (),
) -> Finished:
    """Do the main job in the folder `out`; what an earlier start finished is not done again.

    Args:
        config: of the run, or the name of a preset.
        device: auto, cpu or cuda.
        jobs: how many groups of seeds are trained at a time, as in `train_stacked`.
        figures: whether to draw figures/ and those of the model card.
        counting: shows progress; nothing is shown without it.
        track: trackers that the training is logged to, as in `train_seeds`.

    Raises:
        InputError: the folder belongs to another config or design, the design is unsound, or the
            folder cannot be written to.
    """
    config = preset(config) if isinstance(config, str) else config
    counting = counting or (lambda what, count: nullcontext(lambda done: None))
    folder = Path(out)
    lock_path, table = folder / "lock.yaml", folder / "explore.csv"
    lock = _lock_in(lock_path, config)
    _refuse_unsound(config)
    held_out_seeds = parse_seeds(config.seeds.evaluate)
    shown = held_out_seeds[0]
    place = model_folder(folder, shown)
    train_seeds(
        config,
        [*parse_seeds(config.seeds.explore), *held_out_seeds],
        folder,
        device=device,
        jobs=jobs,
        track=track,
        # Log files written by an earlier version have no model beside them.
        keep=[shown] if place.is_dir() or shown not in finished_seeds(folder) else (),
    )
    data = write_data(config, folder / "data")
    log = RunLog.read(folder / "logs")
    design = design_of(config, log) if lock is None else lock.design
    explored = prepare(part_of(log, design, "explore")[0], design)
    if lock is not None and lock.x_lock.explore_fingerprint != explored.log.fingerprint():
        raise InputError(
            f"{lock_path}: was made on other explore runs than those in {folder / 'logs'}; choose "
            "another --out"
        )
    count = len(explored.entries)
    if lock is None or not table.exists():
        with counting("exploring", count) as done:
            write_explored(explore(design, explored, on_done=done), table)
    warnings: tuple[str, ...] = ()
    if lock is None:
        with counting("locking", count) as done:
            lock, findings = make_lock(design, explored, on_done=done)
        lock = Lock.read(lock.write(lock_path))
        warnings = tuple(str(finding) for finding in findings)
    with counting("judging", count) as done:
        held_out, _ = part_of(log, design, "held-out")
        evaluation = evaluate_lock(lock, held_out, lock_path="lock.yaml", on_done=done)
    note = None
    if config.preset == "quick":  # it leaves verdicts open; what settles them is said
        more = len(parse_seeds(preset("standard").seeds.evaluate))
        note = (
            f"With {evaluation.results.summary.n_seeds} held-out runs an honest interval is wide, "
            f"so most verdicts stay INCONCLUSIVE. `{_FOLLOWING['quick']}` judges the same scores "
            f"on {more} held-out runs, enough to conclude on many of them."
        )
    explaining = f"gmb lock --explain --lock {shlex.quote(str(lock_path))}"
    following = _FOLLOWING.get(config.preset, explaining)
    written = publish(evaluation, folder, note=note, next_command=following, figures=figures)
    paths = [*written, lock_path, table, *data]
    if place.is_dir():
        paths += write_model_card(
            read_saved_model(place),
            folder / "card",
            results=evaluation.results,
            place=str(place.relative_to(folder)),
            every_verdict="../report.md",
            figures=figures,
        )
    return Finished(evaluation, paths, warnings, note, following)


def _refuse_unsound(config: RunConfig) -> None:
    """Refuse, before anything is trained, a design that could not be locked afterwards.

    What runs will show is not known yet; that each explore run has negative windows is the best
    case, and what fails even so is refused.
    """
    explored = len(parse_seeds(config.seeds.explore))
    cadence = config.training.checkpoint_every
    facts = DesignFacts(
        cadence=cadence,
        n_explore=explored,
        n_explore_with_negatives=explored,
        n_eval=len(parse_seeds(config.seeds.evaluate)),
    )
    design = config.design_on(boundary={"checkpoint_every_steps": cadence}, candidates=[])
    refuse_unsound(lint(design, facts))


def _lock_in(path: Path, config: RunConfig) -> Lock | None:
    """The lock in the folder, if any; it must be of this design, or nothing is begun."""
    if not path.exists():
        return None
    lock = Lock.read(path)
    locked = lock.design.plain()
    wanted = config.design_on(boundary=locked["boundary"], candidates=locked["candidates"])
    # What it leaves open, the lock has in steps.
    leads = {"lead_time_median_min": wanted.lead_least, "lead_time_target": wanted.lead_target}
    wanted = wanted.model_copy(update=leads)
    # Who locked it, when, and with which commit is no part of the design.
    sides = ({**side, "meta": {}} for side in (locked, wanted.plain()))
    difference = first_difference(*sides)
    if difference:
        raise InputError(
            f"{path}: this folder was locked with another design "
            f"({textwrap.shorten(difference, 120, placeholder=' ...')}); choose another --out: "
            "held-out runs are judged once, by the design locked first"
        )
    return lock
