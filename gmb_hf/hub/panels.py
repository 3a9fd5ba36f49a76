"""Frozen panels: an explore and a held-out part of run logs, on which scores are compared.

    panels/NAME/README.md         the card: its question, how its runs grok, hashes, commands
    panels/NAME/explore.parquet   run logs, float32
    panels/NAME/heldout.parquet   those that evaluations judge
    panels/NAME/design.yaml       the design of that evaluation
    panels/NAME/looks.yaml        the ledger it was published with: who looked at the held-out part
    panels/NAME/lock.yaml         the lock that the held-out part was trained after, if there is one

A seed that is trained again differs by rounding, which training amplifies, so that scores are
compared on frozen logs only (DECISIONS 13). The folder is a dataset: `load_dataset("panels/NAME")`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow.parquet as pq
from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base.documents import Many, Section, dump_yaml, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, unknown
from gmb_hf.base.escape import number
from gmb_hf.base.files import lies_inside, whole_folder, write_text
from gmb_hf.base.fingerprints import SHOWN, source_hash
from gmb_hf.base.repositories import Pushed, publish
from gmb_hf.base.schemas import Schema, dated
from gmb_hf.benchmark.locking import declared_design
from gmb_hf.benchmark.prepare import controls_of, prepare, refuse_copied_runs
from gmb_hf.design.candidates import Candidate
from gmb_hf.design.design import Design
from gmb_hf.design.ledger import (
    FOLDER,
    PANEL_KEY,
    PLACE,
    PUBLISHED,
    RECORD,
    SHIPPED,
    Ledger,
    SharedRuns,
    checked_record,
    folder_of_panels,
    folders_of_panels,
)
from gmb_hf.design.lock import Lock
from gmb_hf.design.strata import parse_predicate
from gmb_hf.hub.cards import (
    CARD,
    HERE,
    KEY,
    Card,
    CardFingerprint,
    bytes_hash,
    read_content,
    render_card,
    verify,
)
from gmb_hf.hub.curves import CURVES, CurveRecord, CurveShape
from gmb_hf.hub.recipes import RECIPES, Recipe
from gmb_hf.indicators import catalogue
from gmb_hf.runs.columns import KEYS
from gmb_hf.runs.metadata import EXTERNAL, PANEL, SYSTEM, with_hub_runs
from gmb_hf.runs.readers import Sources
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.settings import first_difference

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig

EXPLORE, HELD_OUT = PARTS = ("explore", "heldout")
DESIGN, LEDGER, LOCK = "design.yaml", PUBLISHED, "lock.yaml"
LOCKED = "locked.yaml"
"""In the folder of a training of held-out runs: the lock that came before them."""
_OF_SCORES = {"meta": None, "candidates": None, "x_null_draws": None}
"""The sections of a design that follow from its scores, or say who made it and when."""


def names() -> tuple[str, ...]:
    """The panels that can be built and those that are here, sorted."""
    return tuple(sorted({*RECIPES, *here()}))


def here(*folders: Path) -> tuple[str, ...]:
    """The panels that lie in these folders, by default wherever one is looked up, sorted."""
    found = (card for one in folders or folders_of_panels() for card in one.glob(f"*/{CARD}"))
    return tuple(sorted({card.parent.name for card in found}))


SCHEMA = Schema("panel", (partial(dated, version=2),))


class CutRecord(Section):
    """Which panel a copy with fewer columns was cut from, and what it holds of it."""

    content_hash: str = Field(description="of the whole panel")
    fingerprint: str = Field(description="of the whole panel")
    of_columns: int = Field(description="how many observables the whole panel has")
    columns: Many[str] = Field(description="the observables that this copy has")


class LockedRecord(Section):
    """The lock that was there before the held-out runs were trained."""

    lock_hash: str
    locked: str = Field(description="when the lock was made, UTC")
    trained: str = Field(description="when the training of held-out runs began, UTC")
    explore_fingerprint: str = Field(description="of the panel while it was its explore part")


class PanelRecord(Section):
    """What the card of a panel says beside the fingerprint of its runs."""

    x_schema: int = SCHEMA.current
    asks: str
    credit: str = ""
    files: dict[str, str] = Field(description="name -> SHA-256 of its bytes")
    locks_allowed: int = Field(description="by the ledger: who looked may have chosen by it")
    command: str
    versions: dict[str, str]
    curves: CurveRecord | None = None
    x_cut: CutRecord | None = None
    x_locked: LockedRecord | None = None
    x_checksum: str | None = Field(None, description="of all this; cards of schema 1 have none")

    def entry(self) -> dict[str, Any]:
        """As it stands in the card, with its checksum."""
        return RECORD.added_to(self.plain())


@dataclass(frozen=True)
class FrozenPanel:
    """A panel that lies in a folder, by its card."""

    name: str
    card: Card

    @classmethod
    def find(cls, name: str, fingerprint: str | None = None) -> Self:
        """The first panel of this name, by `folders_of_panels`.

        Args:
            name: its folder.
            fingerprint: of its runs: a later one is taken where it alone has this fingerprint.

        Raises:
            InputError: there is no such panel, or files of it are missing.
        """
        again = (
            f"copy panels/{name} of the repository there, or train other runs of the same "
            "configuration"
        )
        if name not in names():
            raise unknown("panel", name, names())
        folders = [one / name for one in folders_of_panels() if (one / name / CARD).is_file()]
        if not folders:
            place = folder_of_panels().resolve()
            raise InputError(
                f"panel {name!r}: is not in {place}; fetch it: gmb panel fetch {name} --from "
                f"SOURCE; {again}: gmb panel build {name}"
            )
        panel = cls(name, Card.read(folders[0]))
        if fingerprint not in (None, panel.entry.fingerprint):
            others = (cls(name, Card.read(folder)) for folder in folders[1:])
            same = (one for one in others if one.entry.fingerprint == fingerprint)
            panel = next(same, panel)
        for file in panel.record.files:
            if not (lies_inside(panel.folder, file) and (panel.folder / file).is_file()):
                raise InputError(f"panel {name!r}: {panel.folder / file} is missing; {again}")
        return panel

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.card.path.parent

    @cached_property
    def record(self) -> PanelRecord:
        """What its card says of it; `InputError` where it says nothing of the kind."""
        where = f"{self.card.where}: {PANEL_KEY}"
        said = self.card.header.get(PANEL_KEY) or {}
        checked_record(self.card.header, self.card.where)
        return PanelRecord.parse(SCHEMA.opened(said, where=where), where=where)

    @property
    def entry(self) -> CardFingerprint:
        """The fingerprint of its runs, by its card."""
        choose("panel", self.name, list(self.card.entries), where=self.card.where)
        return self.card.entries[self.name]

    @property
    def whole(self) -> str:
        """The content hash of the whole panel, also of a copy with fewer columns."""
        cut = self.record.x_cut
        return self.entry.content_hash if cut is None else cut.content_hash

    def holds(self, fingerprint: str, panel: FrozenPanel) -> bool:
        """Whether it has this fingerprint and the runs of another panel, all its columns or not."""
        return self.entry.fingerprint == fingerprint and self.whole == panel.whole

    @property
    def said_of_cut(self) -> str:
        """Which columns it lacks, in a phrase; empty for a whole panel."""
        cut = self.record.x_cut
        if cut is None:
            return ""
        return (
            f"{len(cut.columns)} of the {cut.of_columns} columns of the panel with the hash "
            f"{cut.content_hash[:SHOWN]}"
        )

    @property
    def parts(self) -> dict[str, Path]:
        """Its Parquet files by part."""
        return {part: paths[0] for part, paths in self.card.shards(self.name).items()}

    @property
    def judged(self) -> bool:
        """Whether it has a held-out part, on which looks are counted."""
        return HELD_OUT in self.parts

    @property
    def awaits_lock(self) -> bool:
        """Whether its held-out part is to be trained after a lock on what is here."""
        return not self.judged and bool(self.design().seeds_eval)

    @property
    def said_of_lock(self) -> list[str]:
        """In which order it was locked and trained, a sentence; none where no lock was asked."""
        locked = self.record.x_locked
        if locked is not None:
            return [
                f"locked before its held-out runs were trained: lock {locked.lock_hash[:SHOWN]} "
                f"of {locked.locked}, training began at {locked.trained}"
            ]
        if not self.awaits_lock:
            return []
        return [
            f"its held-out part is trained after a lock: gmb panel build {self.name} --part "
            f"{HELD_OUT} --lock lock.yaml"
        ]

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """By which locks know its explore part: its own, and that before it was held out."""
        locked = self.record.x_locked
        before = () if locked is None else (locked.explore_fingerprint,)
        return (self.entry.fingerprint, *before)

    @property
    def columns(self) -> set[str]:
        """Those that every part has."""
        return set.intersection(*(set(pq.read_schema(path).names) for path in self.parts.values()))

    @property
    def source(self) -> dict[str, str]:
        """How logs, locks and results name it."""
        about = {"repo": f"{PANEL}{self.name}", "revision": self.entry.version}
        return {**about, "config": self.name, "fingerprint": self.entry.fingerprint}

    def check(self) -> None:
        """Refuse files that are not, byte by byte, those of the card.

        Raises:
            InputError: one was changed; it is named.
        """
        for file, said in self.record.files.items():
            found = source_hash(self.folder / file)
            if found != said:
                raise InputError(
                    f"{self.folder / file}: was changed (SHA-256 {found[:SHOWN]}, the card says "
                    f"{said[:SHOWN]}); a panel is frozen: restore the file"
                )

    def read(self, part: str | None = None, **options: Any) -> RunLog:
        """Its runs, or those of one part, with a note in the metadata of where they come from.

        Args:
            part: "explore" or "heldout".
            options: of `RunLog.read`.

        Raises:
            InputError: as `check`, or no such part.
        """
        self.check()
        parts = self.parts
        chosen = list(parts.values())
        if part is not None:
            chosen = [parts[choose("part", part, list(parts), where=f"{PANEL}{self.name}")]]
        log = RunLog.read(chosen, **options)
        log.metadata = with_hub_runs(log.metadata, [self.source])
        return log

    def faults(self) -> list[str]:
        """What is not as the card says, a line each; empty if all is."""
        found = list(verify(self.folder, self.name).faults)
        try:
            self.check()
        except InputError as error:
            found.append(str(error))
        return found

    def design(self) -> Design:
        """The design of its evaluation; `InputError` as `check`."""
        self.check()
        return Design.read(self.folder / DESIGN)

    # The ledger of locks.

    @property
    def shared(self) -> SharedRuns:
        """Its held-out runs, and who has judged them."""
        return SharedRuns(self.folder, self.card.header)

    def ledger(self) -> Ledger:
        """Every lock that looked: those it was published with, then those of this machine."""
        return self.shared.ledger()


def having(column: object) -> list[FrozenPanel]:
    """The panels that are here and have a column in every part."""
    return [panel for panel in map(FrozenPanel.find, here()) if column in panel.columns]


# Making one.


def build(
    name: str,
    out: Path | None = None,
    work: Path | None = None,
    *,
    runs: Sources | None = None,
    part: str | None = None,
    lock: Path | None = None,
    jobs: int | None = None,
    device: str = "auto",
) -> FrozenPanel:
    """Train the runs of a panel, or go on with them, and freeze them.

    Args:
        name: of `RECIPES`.
        out: its folder, which is new; by default $GMB_PANELS/NAME, else panels/NAME.
        work: where training is kept until then, `runs/panels/NAME` by default; the same call
            resumes there.
        runs: the logs of others, of a panel that is not trained here; they are its explore part.
        part: "explore" trains and freezes that part alone. "heldout" then trains the other one and
            freezes both; no held-out run is trained before the design and its thresholds are
            locked. None trains both at once.
        lock: the lock on the explore part, which "heldout" needs; the panel keeps it.
        jobs, device: as of `train_seeds`.

    Raises:
        InputError: no such recipe, `out` is there already, logs are lacking or given where runs are
            trained, or as `train_seeds`. Of "heldout": there is no explore part, the lock is of
            another one or of another design, or held-out runs are there already.
    """
    recipe = RECIPES[choose("panel", name, tuple(RECIPES))]
    out = out or Path(os.environ.get(PLACE, FOLDER)) / name
    if part is not None:
        choose("part", part, PARTS, where="--part")
    _refuse_unordered(recipe, part, lock)
    if part != HELD_OUT:
        refuse_frozen(out)
    command = f"gmb panel build {name}"
    if bool(recipe.credit) != (runs is not None):
        why = "is made of the logs of others; name them" if recipe.credit else "is trained; leave"
        raise InputError(f"panel {name!r}: {why} {'by' if recipe.credit else 'out'} --runs")
    config = recipe.config()
    if runs is not None:
        log = RunLog.read(runs, on_duplicate="keep")
        design = config.benchmark.design()
        columns = [name for name in log.observables if name != design.metric]
        candidates = [{"name": name, "family": EXTERNAL} for name in columns]
        design = design.replace(candidates=candidates)
        return freeze(recipe, {EXPLORE: log}, design, out, command=f"{command} --runs LOGS")
    from gmb_hf.training.presets import design_of

    training = Training(config, work or Path("runs", "panels", name), jobs, device)
    if lock is not None:
        return _with_held_out(recipe, training, out, lock, command=f"{command} --part {part}")
    if part is not None:
        command += f" --part {part}"
    parts = training.parts() if part is None else {EXPLORE: training.explore()}
    return freeze(recipe, parts, design_of(config, parts[EXPLORE]), out, command=command)


def _refuse_unordered(recipe: Recipe, part: str | None, lock: Path | None) -> None:
    """Raise `InputError` where a lock is lacking, or is of no use."""
    where = f"panel {recipe.name!r}"
    if recipe.credit and part is not None:
        raise InputError(f"{where}: is made of the logs of others; leave out --part")
    if part == HELD_OUT and lock is None:
        raise InputError(
            f"{where}: its held-out part is trained after a lock on the explore part; make one, "
            f"gmb lock --runs {PANEL}{recipe.name} --out lock.yaml, and give it by --lock"
        )
    if part != HELD_OUT and lock is not None:
        raise InputError(f"{where}: --lock is for --part {HELD_OUT}; leave it out")


@dataclass(frozen=True)
class Training:
    """What trains the runs of a panel.

    Attributes:
        config: what is trained.
        folder: where it is kept; held-out runs that come after a lock have a folder in it.
        jobs, device: as of `train_seeds`.
    """

    config: RunConfig
    folder: Path
    jobs: int | None
    device: str

    @cached_property
    def seeds(self) -> dict[str, tuple[int, ...]]:
        """Those of each part."""
        from gmb_hf.training.config import parse_seeds

        seeds = self.config.seeds
        return {EXPLORE: parse_seeds(seeds.explore), HELD_OUT: parse_seeds(seeds.evaluate)}

    def parts(self) -> dict[str, RunLog]:
        """The runs of both parts, trained at once."""
        every = tuple(seed for part in PARTS for seed in self.seeds[part])
        log = self._trained(every, self.folder)
        return {part: _of_seeds(log, seeds) for part, seeds in self.seeds.items()}

    def explore(self) -> RunLog:
        """The explore runs alone."""
        seeds = self.seeds[EXPLORE]
        return _of_seeds(self._trained(seeds, self.folder), seeds)

    def held_out(self, locked: LockedRecord) -> tuple[RunLog, LockedRecord]:
        """The held-out runs, trained after a lock; and when that began.

        Raises:
            InputError: some were trained before, or after another lock.
        """
        seeds, folder = self.seeds[HELD_OUT], self.folder / HELD_OUT
        note = folder / LOCKED
        if note.exists():
            held = LockedRecord.parse(load_yaml(note), where=str(note))
            if held.lock_hash != locked.lock_hash:
                raise InputError(
                    f"{note}: held-out runs are trained here after the lock "
                    f"{held.lock_hash[:SHOWN]}, this one is {locked.lock_hash[:SHOWN]}; give that "
                    "lock, or choose another --work"
                )
        elif folder.exists() or self._begun() & {*seeds}:
            raise InputError(
                f"{self.folder}: has held-out runs that were trained before any lock; runs that "
                "come after one need another --work, and seeds that nobody has trained"
            )
        else:
            held = locked
            write_yaml(note, held.plain())
        return _of_seeds(self._trained(seeds, folder), seeds), held

    def refuse_other(self, panel: FrozenPanel) -> None:
        """Raise `InputError` where the explore part of a panel is of another configuration."""
        explore, config = RunLog.read(panel.parts[EXPLORE]), self.config
        said = (explore.metadata.get("config"), {"seeds": list(panel.design().seeds_eval)})
        asked = (config.training_identity(), {"seeds": list(self.seeds[HELD_OUT])})
        for theirs, ours in zip(said, asked, strict=True):
            difference = None if theirs is None else first_difference(theirs, ours)
            if difference is not None:
                raise InputError(
                    f"{panel.folder}: its explore part is of another configuration than the "
                    f"held-out runs would be ({difference}); build it anew, with another --out"
                )

    def _begun(self) -> set[int]:
        """The seeds that were trained in the folder, or are under way there."""
        from gmb_hf.training.folder import finished_seeds
        from gmb_hf.training.seeds import saved_states

        waiting = saved_states(self.folder, self.config).waiting(())
        return finished_seeds(self.folder).union(*waiting)

    def _trained(self, seeds: Sequence[int], folder: Path) -> RunLog:
        from gmb_hf.training.seeds import train_seeds

        paths = train_seeds(self.config, seeds, folder, jobs=self.jobs, device=self.device)
        return RunLog.read(paths)


def _of_seeds(log: RunLog, seeds: Sequence[int]) -> RunLog:
    by_seed = dict(zip(log.seeds, log.runs, strict=True))
    return log.select([by_seed[seed] for seed in seeds])


def _with_held_out(
    recipe: Recipe, training: Training, out: Path, path: Path, *, command: str
) -> FrozenPanel:
    """Train the held-out part of a panel that has its explore part, and freeze both."""
    if not (out / CARD).exists():
        raise InputError(
            f"{out}: holds no explore part, on which a lock is made; gmb panel build "
            f"{recipe.name} --part {EXPLORE} trains it"
        )
    panel = FrozenPanel(recipe.name, Card.read(out))
    if panel.judged:
        raise InputError(
            f"{out}: has its held-out part already, and a panel is frozen; choose another --out"
        )
    training.refuse_other(panel)
    lock = Lock.read(path)
    refuse_other_lock(lock, panel, str(path))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    locked = LockedRecord(
        lock_hash=lock.hash,
        locked=lock.x_lock.created,
        trained=now,
        explore_fingerprint=panel.entry.fingerprint,
    )
    if locked.locked > now:
        raise InputError(f"{path}: was made at {locked.locked}, and it is {now}; check the clock")
    held_out, locked = training.held_out(locked)
    parts = {EXPLORE: RunLog.read(panel.parts[EXPLORE]), HELD_OUT: held_out}
    return freeze(recipe, parts, panel.design(), out, command=command, after=(path, locked))


def refuse_other_lock(lock: Lock, panel: FrozenPanel, where: str) -> None:
    """Refuse a lock that is not of the explore part and the design of a panel.

    Its scores are its own affair: they may be others, or fewer, than the design's candidates.

    Raises:
        InputError: explore runs, or a field of the design that is no score's, differ.
    """
    explore = panel.read(EXPLORE)
    kept = prepare(explore, lock).log
    if sorted(lock.x_lock.explore_hashes) != sorted(kept.run_hashes(lock.columns)):
        raise InputError(
            f"{where}: was not made on the explore part of panel {panel.name!r}; make it: gmb "
            f"lock --runs {PANEL}{panel.name} --out lock.yaml"
        )
    own = declared_design(prepare(explore, panel.design()))
    both = [{**one.plain(), **_OF_SCORES} for one in (own, lock.design)]
    difference = first_difference(*both)
    if difference is not None:
        raise InputError(
            f"{where}: has another design than panel {panel.name!r} ({difference}); lock the "
            f"panel's own: gmb lock --runs {PANEL}{panel.name} --out lock.yaml"
        )


def refuse_frozen(out: Path) -> None:
    """Raise `InputError` where a panel lies there already."""
    if (out / CARD).exists():
        raise InputError(f"{out}: holds a panel, which is frozen; choose another --out")


def freeze(
    recipe: Recipe,
    parts: dict[str, RunLog],
    design: Design,
    out: Path,
    *,
    command: str,
    cut: CutRecord | None = None,
    after: tuple[Path, LockedRecord] | None = None,
) -> FrozenPanel:
    """Write a panel, whole or not at all.

    Args:
        recipe: its name, question and licence.
        parts: the runs by part.
        design: of its evaluation, with the seeds of its parts.
        out: its folder, which is new.
        command: that makes runs of the same configuration.
        cut: the whole panel of which these are some columns.
        after: the lock that its held-out part was trained after; its explore part is in `out`.

    Raises:
        InputError: a panel is there already, two of its runs are copies, or the disk is full.
    """
    if after is None:
        refuse_frozen(out)
    refuse_copied_runs(RunLog.concat(list(parts.values())), design, f"panel {recipe.name!r}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as workshop:
        shards = {
            part: [log.write(workshop / f"{part}.parquet", single=recipe.single)]
            for part, log in parts.items()
        }
        design.write(workshop / DESIGN)
        more = [workshop / DESIGN]
        if after is not None:
            more.append(Path(shutil.copyfile(after[0], workshop / LOCK)))
        content = read_content(shards, "run")
        entry = CardFingerprint.of(
            content.items, version="v1", item="run", source_hash=bytes_hash(shards)
        )
        files = [*(paths[0] for paths in shards.values()), *more]
        record = PanelRecord(
            asks=recipe.asks,
            credit=recipe.credit,
            files={path.name: source_hash(path) for path in files},
            locks_allowed=recipe.locks,
            command=command,
            versions={"gmb_hf": __version__, **_versions(parts)},
            curves=_curves(parts),
            x_cut=cut,
            x_locked=None if after is None else after[1],
        )
        header = {
            "pretty_name": f"GMB panel {recipe.name}",
            "license": recipe.license,
            "tags": ["gmb", "grokking", "training-dynamics"],
            "configs": [
                {
                    "config_name": recipe.name,
                    "data_files": [{"split": part, "path": f"{part}.parquet"} for part in shards],
                }
            ],
            KEY: {recipe.name: entry.entry()},
            PANEL_KEY: record.entry(),
        }
        text = render_card(
            "panel",
            header,
            panel=recipe.name,
            score=_example_of(design),
            single=recipe.single,
            record=record,
            entry=entry,
            parts=parts,
            awaits_lock=HELD_OUT not in parts and bool(design.seeds_eval),
            content=content,
            number=number,
            curves=CURVES,
        )
        write_text(workshop / CARD, text)
    return FrozenPanel(recipe.name, Card.read(out))


def cut(panel: FrozenPanel, chosen: Collection[str], out: Path) -> FrozenPanel:
    """Freeze a copy of a panel with fewer columns: its runs and ledger, the same values.

    Args:
        panel: the whole one.
        chosen: candidates of its design; the columns are kept that they, the controls, the event
            and the strata need, and with them every candidate that needs no others.
        out: the folder of the copy, which is new.

    Raises:
        InputError: no such candidate, or as `freeze`.
    """
    design = panel.design()
    needs = {one.name: _needs(one) for one in design.candidates}
    strata = (condition.name for one in design.strata for condition in parse_predicate(one.where))
    kept = {design.metric, *KEYS, *strata}
    for name in chosen:
        kept |= needs[choose("candidate", name, list(needs), where=str(panel.folder / DESIGN))]
    panel.check()
    whole = {part: RunLog.read(path) for part, path in panel.parts.items()}
    for log in whole.values():  # every verdict compares scores with these
        kept |= {column for name in controls_of(log) for column in catalogue.get(name).needs}
    parts = {}
    for part, log in whole.items():
        columns = [name for name in log.table.column_names if name in kept]
        parts[part] = log.with_rows(log.table.select(columns))
        parts[part].metadata = _with_system(log.metadata)
    about = CutRecord(
        content_hash=panel.entry.content_hash,
        fingerprint=panel.entry.fingerprint,
        of_columns=len(next(iter(whole.values())).observables),
        columns=tuple(next(iter(parts.values())).observables),
    )
    fewer = [one.plain() for one in design.candidates if needs[one.name] <= kept]
    recipe, command = RECIPES[panel.name], panel.record.command
    made = freeze(recipe, parts, design.replace(candidates=fewer), out, command=command, cut=about)
    if (panel.folder / LEDGER).exists():
        shutil.copyfile(panel.folder / LEDGER, out / LEDGER)
    return made


def _with_system(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a log says, and what a callback compares, which older logs do not say."""
    if SYSTEM in metadata or "config" not in metadata:
        return metadata
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.seeds import system_shown

    config = RunConfig.from_dict({"preset": metadata["preset"], **metadata["config"]})
    return {**metadata, SYSTEM: system_shown(config)}


def _needs(candidate: Candidate) -> set[str]:
    """The columns that a candidate reads, or the members of a combination."""
    members = [candidate] if candidate.x_ensemble is None else candidate.x_ensemble.members
    known = catalogue.names()
    needs = (catalogue.get(one.name).needs if one.name in known else (one.name,) for one in members)
    return {name for every in needs for name in every}


def ship() -> list[FrozenPanel]:
    """Cut the copies that the package ships from the panels of a checkout, where they lack."""
    made = []
    for recipe in RECIPES.values():
        if recipe.shipped and not (SHIPPED / recipe.name / CARD).exists():
            panel = FrozenPanel.find(recipe.name)
            made.append(cut(panel, recipe.shipped, SHIPPED / recipe.name))
    return made


def _example_of(design: Design) -> str:
    """The candidate that the commands of a card name."""
    names = [candidate.name for candidate in design.candidates]
    return next((name for name in ("embedding_gini", "score") if name in names), names[0])


def _curves(parts: dict[str, RunLog]) -> CurveRecord | None:
    logs = list(parts.values())
    if any({"train_acc", "test_acc"} - {*log.observables} for log in logs):
        return None
    return CurveShape.of(RunLog.concat(logs)).summary()


def _versions(parts: dict[str, RunLog]) -> dict[str, str]:
    found = next(iter(parts.values())).metadata.get("versions")
    return {str(name): str(version) for name, version in (found or {}).items()}


def push_panels(chosen: Sequence[str], repo_id: str, *, private: bool = False) -> Pushed:
    """Publish panels as one dataset, a config each, in one commit.

    Raises:
        InputError: none or no such panel, one that is not as its card says, or as `publish`.
    """
    if not chosen:
        place = folder_of_panels()
        raise InputError(f"{place}: there is no panel to push; gmb panel build NAME makes one")
    found = [FrozenPanel.find(name) for name in chosen]
    files: dict[str, Path | bytes] = {}
    for panel in found:
        panel.check()
        files |= {f"{panel.name}/{file}": panel.folder / file for file in panel.record.files}
        files[f"{panel.name}/{CARD}"] = panel.card.path
        if (ledger := panel.ledger()).locks:
            files[f"{panel.name}/{LEDGER}"] = dump_yaml(ledger.as_read()).encode("utf-8")
    header = {
        "pretty_name": "GMB panels",
        "license": sorted({str(panel.card.header["license"]) for panel in found}),
        "tags": ["gmb", "grokking", "training-dynamics"],
        "configs": [
            {
                "config_name": panel.name,
                "data_files": [
                    {"split": part, "path": f"{panel.name}/{path.name}"}
                    for part, path in panel.parts.items()
                ],
            }
            for panel in found
        ],
        KEY: {panel.name: panel.entry.entry() for panel in found},
        PANEL_KEY: {panel.name: panel.record.entry() for panel in found},
    }
    text = render_card("panels", header, panels=found).replace(HERE, repo_id)
    files[CARD] = text.encode("utf-8")
    return publish(files, repo_id, "dataset", message=", ".join(chosen), private=private)
