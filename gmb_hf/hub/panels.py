"""Frozen panels: an explore and a held-out part of run logs, on which scores are compared.

    panels/NAME/README.md         the card: what it asks, how its runs grok, hashes, commands
    panels/NAME/explore.parquet   run logs, float32
    panels/NAME/heldout.parquet   those that evaluations judge
    panels/NAME/design.yaml       the design of that evaluation
    panels/NAME/looks.yaml        the ledger of those that looked at the held-out part

A seed that is trained again differs by rounding, which training amplifies, so that scores are
compared on frozen logs only (DECISIONS 13). The folder is a dataset: `load_dataset("panels/NAME")`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base.documents import Many, Section, canonical_hash, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, unknown
from gmb_hf.base.escape import number
from gmb_hf.base.files import claimed, lies_inside, whole_folder, write_text
from gmb_hf.base.fingerprints import SHOWN, source_hash
from gmb_hf.base.repositories import Pushed, publish
from gmb_hf.benchmark.first_alarm import MEMORISATION
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
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
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.metadata import EXTERNAL, hub_sources, with_hub_runs
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.readers import Sources
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig

PREFIX = "panel:"
EXPLORE, HELD_OUT = PARTS = ("explore", "heldout")
DESIGN, LEDGER = "design.yaml", "looks.yaml"
PANEL_KEY = "gmb_panel"
PLACE = "GMB_PANELS"
"""An environment variable: another folder of panels."""
FOLDER = "panels"
_TAKEN = "another evaluation writes the ledger of this panel; run it again"
_HEADING = """\
The locks that judged the held-out runs of this panel; gmb evaluate writes it. Each of them may have
chosen by what earlier ones showed, so the panel wears out: its card says how many it allows. What
judged them without a lock counts as one: its hash is that of its design."""
NO_LOCK = "no lock: "


# What can be built.


@dataclass(frozen=True)
class Recipe:
    """How a panel is made.

    Attributes:
        name: letters, digits and hyphens; also its folder.
        asks: the question that it answers, without its question mark.
        config: what is trained, with its explore and its held-out seeds.
        locks: how many locks may look at its held-out part.
        license: of its logs, as the Hub names it.
        credit: whose logs they are, a sentence; empty for those that are trained.
        single: keep them in float32, which halves the files.
    """

    name: str
    asks: str
    config: Callable[[], RunConfig]
    locks: int = 200
    license: str = "apache-2.0"
    credit: str = ""
    single: bool = True


def _panel(explore: str, evaluate: str, *changes: str) -> Callable[[], RunConfig]:
    """The law of `standard`, its seeds, with some fields changed and all cheap signals recorded."""

    def config() -> RunConfig:
        from gmb_hf.training.presets import preset

        seeds = (f"seeds.explore={explore}", f"seeds.evaluate={evaluate}")
        return preset("standard").changed((*seeds, "training.observables=published", *changes))

    return config


def _published_runs() -> RunConfig:
    from gmb_hf.training.presets import preset

    return preset("reference").judged_by(metric="acc_test")


# Half of the rows of an operation that commutes are mirror images of the other half. Split apart,
# they are told by each other, and the model generalises as it memorises.
_COMMUTES = ("task.keep_pairs_together=true",)

# No seed is of two panels, of a preset, or of the search for the law (from 900,000 on).
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "quick-29",
            "Which score announces grokking of subtraction modulo 29, by few runs",
            _panel("100000:100064", "110000:110064"),
        ),
        Recipe(
            "sub-29",
            "Which score announces grokking of subtraction modulo 29, by runs enough to learn one",
            _panel("200000:200256", "210000:210256"),
        ),
        Recipe(
            "varied-29",
            "Which score holds where no two runs are alike, as those of a user are not",
            _panel(
                "300000:300256",
                "310000:310256",
                "task.operation=add",
                *_COMMUTES,
                "draws.operation=add,sub,mul,div,x2_xy_y2",
                "draws.train_fraction=0.4,0.6,0.7,0.8",
                "draws.activation=relu,gelu_new",
                "draws.lr=0.005,0.012",
                "draws.weight_decay=0.8,2.5",
                "draws.initializer_range=0.1,0.25",
                "draws.no_decay=0.2",
                "training.steps=5000",
            ),
        ),
        Recipe(
            "mul-31",
            "Does what announces grokking of a subtraction announce it of a multiplication",
            _panel(
                "400000:400064",
                "410000:410128",
                *_COMMUTES,
                "task.operation=mul",
                "task.prime=31",
                "task.train_fraction=0.65",
            ),
        ),
        Recipe(
            "add-29",
            "Does what announces grokking of a subtraction announce it of an addition",
            _panel(
                "500000:500064",
                "510000:510128",
                *_COMMUTES,
                "task.operation=add",
                "task.train_fraction=0.68",
            ),
        ),
        Recipe(
            "sub-59",
            "Does it hold with four times the rows and a model of twice the width",
            _panel(
                "600000:600032",
                "610000:610064",
                "task.prime=59",
                "task.train_fraction=0.4",
                "model.width=96",
                "model.mlp_width=256",
                "training.lr=0.006",
            ),
        ),
        Recipe(
            "costly-29",
            "Do signals that cost many gradients announce grokking, by runs that measure them too",
            _panel("800000:800064", "810000:810064", "training.observables=all"),
        ),
        Recipe(
            "reference",
            "What is seen on the runs of others, which are too few for a lock",
            _published_runs,
            license="cc-by-4.0",
            credit="The runs are seeds 140 to 159 of github.com/qienhuang/F-I-T, "
            "experiments/grokking_transition_audit_v0_1/data/real, by Qien Huang, under CC BY 4.0. "
            "They are as published, with the rows that restarts logged again; the column `score` "
            "is rebuilt from `d_info` and `d_info_alt` and is not a published one.",
            single=False,
        ),
    )
}


def names() -> tuple[str, ...]:
    """The panels that can be built and those that lie in the folder, sorted."""
    return tuple(sorted({*RECIPES, *here()}))


def here() -> tuple[str, ...]:
    """The panels that lie in the folder, sorted."""
    return tuple(sorted(card.parent.name for card in folder_of_panels().glob(f"*/{CARD}")))


def folder_of_panels() -> Path:
    """Where panels lie: $GMB_PANELS, ./panels, or beside the package in a checkout."""
    here = Path(os.environ.get(PLACE, FOLDER))
    beside = Path(__file__).resolve().parents[2] / FOLDER
    return beside if PLACE not in os.environ and not here.is_dir() else here


# How runs grok: numbers by which one sees whether they memorise first and generalise later.
#
# Slow learning climbs a ramp from the start, and instabilities make accuracy jump by recovering.
# Grokking is a plateau near chance after the training rows are learned, and then a rise that is
# short against the plateau. Times are steps; a level is reached at the first checkpoint at or above
# it.

_SPIKE = 0.97  # training accuracy below this, after memorisation
_REACHED = (0.2, 0.5, 0.8, 0.9)

Floats = NDArray[np.float64]


class CurveRecord(Section):
    """How the runs of a panel grok: medians over runs, and shares of runs; None: of none."""

    at_memorisation: float | None = Field(
        None, description="held-out accuracy when the training rows are memorised"
    )
    ratio: float | None = Field(
        None, description="steps to a held-out accuracy of .5, over steps to memorise"
    )
    width: float | None = Field(
        None, description="the rise from .2 to .8, over the delay from memorisation to .5"
    )
    spikes: float | None = Field(
        None,
        description="share of checkpoints after memorisation with a training accuracy under .97",
    )
    spikes_mean: float | None = Field(None, description="the same, mean over runs")
    spread: float | None = Field(
        None, description="steps to .5: the 95% quantile of runs over the 5% quantile"
    )
    memorised: float = Field(description="share of runs that memorise")
    reach_half: float = Field(description="share of runs that reach a held-out accuracy of .5")
    reach_nine_tenths: float = Field(description="share of runs that reach .9")


CURVES = {name: field.description or "" for name, field in CurveRecord.model_fields.items()}
"""What each number is, by its name."""


@dataclass(frozen=True, eq=False)
class CurveShape:
    """Of R runs, float64 [R] each; NaN where a run does not come so far.

    Attributes:
        memorised: as of the control `steps_since_memorisation`: .99 held for 5 checkpoints.
        reached: level of held-out accuracy -> when it is reached.
        at_memorisation: held-out accuracy when the training rows are memorised.
        spikes: share of later checkpoints with a training accuracy under .97.
    """

    memorised: Floats
    reached: dict[float, Floats]
    at_memorisation: Floats
    spikes: Floats

    @classmethod
    def of(cls, log: RunLog) -> Self:
        """Read `train_acc` and `test_acc`.

        Raises:
            InputError: one of the two is missing.
        """
        train, test = log.panel("train_acc"), log.panel("test_acc")
        ends = np.arange(len(train.runs)), train.lengths - 1
        since = compute(log, MEMORISATION).values[ends]
        memorised = np.where(since > 0, train.last_step - since, np.nan)
        after = train.present & (train.steps >= memorised[:, None])
        spiking = (after & (train.values < _SPIKE)).sum(axis=1)
        at_once = test.values[ends[0], np.argmax(after, axis=1)]
        return cls(
            memorised,
            {level: _first(test.present & (test.values >= level), test) for level in _REACHED},
            np.where(since > 0, at_once, np.nan),
            np.where(since > 0, spiking / np.maximum(1, after.sum(axis=1)), np.nan),
        )

    @property
    def delay(self) -> Floats:
        """From memorisation to a held-out accuracy of .5, in steps."""
        return self.reached[0.5] - self.memorised

    @property
    def ratio(self) -> Floats:
        """How many times as long as memorising it takes to reach .5."""
        return self.reached[0.5] / np.maximum(self.memorised, 1)

    @property
    def width(self) -> Floats:
        """From .2 to .8, as a share of the delay."""
        return (self.reached[0.8] - self.reached[0.2]) / np.maximum(self.delay, 1)

    def summary(self) -> CurveRecord:
        """The numbers that a card states."""
        half = self.reached[0.5][np.isfinite(self.reached[0.5])]
        known = self.spikes[np.isfinite(self.spikes)]
        return CurveRecord(
            at_memorisation=_median(self.at_memorisation),
            ratio=_median(self.ratio),
            width=_median(self.width),
            spikes=_median(known),
            spikes_mean=float(known.mean()) if len(known) else None,
            spread=float(np.divide(*np.quantile(half, [0.95, 0.05]))) if len(half) else None,
            memorised=float(np.isfinite(self.memorised).mean()),
            reach_half=float(np.isfinite(self.reached[0.5]).mean()),
            reach_nine_tenths=float(np.isfinite(self.reached[0.9]).mean()),
        )


def _first(hit: NDArray[np.bool_], panel: Panel) -> Floats:
    """The step of the first True of each row; NaN where there is none."""
    at = panel.steps[np.arange(len(hit)), np.argmax(hit, axis=1)]
    return np.where(hit.any(axis=1), at, np.nan)


def _median(values: Floats) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


# A panel that is there.


class PanelRecord(Section):
    """What the card of a panel says beside the fingerprint of its runs."""

    asks: str
    credit: str = ""
    files: dict[str, str] = Field(description="name -> SHA-256 of its bytes")
    locks_allowed: int
    command: str
    versions: dict[str, str]
    curves: CurveRecord | None = None


class LookedRecord(Section):
    """A lock that judged the held-out part; made again on another day it is no other one.

    What judges without a lock may choose by earlier looks as a lock does, and counts as one.
    """

    lock_hash: str = Field(description="without a lock: `no lock: ` and the hash of the design")
    content: str = Field("", description="`Lock.content`; empty in lines of older versions")
    date: str

    @classmethod
    def by(cls, judge: Lock | Design) -> Self:
        """Today's look, by a lock or, without one, by a design."""
        if isinstance(judge, Lock):
            name, content = judge.hash, judge.content
        else:
            asked = {part: values for part, values in judge.plain().items() if part != "meta"}
            name, content = f"{NO_LOCK}{canonical_hash(asked)}", ""
        today = datetime.date.today().isoformat()
        return cls(lock_hash=name, content=content, date=today)

    def among(self, known: Sequence[LookedRecord]) -> bool:
        """Whether the same look is there already."""
        return any(
            self.lock_hash == one.lock_hash or self.content == one.content != "" for one in known
        )


class Ledger(Section):
    """Every lock that judged the held-out part of a panel, or what did without, oldest first."""

    locks: Many[LookedRecord] = ()


@dataclass(frozen=True)
class FrozenPanel:
    """A panel that lies in a folder, by its card."""

    name: str
    card: Card

    @classmethod
    def find(cls, name: str) -> Self:
        """The panel of this name.

        Raises:
            InputError: there is no such panel, or files of it are missing.
        """
        folder = folder_of_panels() / name
        again = f"copy panels/{name} of the repository there, or train other runs of the same law"
        if name not in names():
            raise unknown("panel", name, names())
        if not (folder / CARD).is_file():
            place = folder.parent.resolve()
            raise InputError(f"panel {name!r}: is not in {place}; {again}: gmb panel build {name}")
        panel = cls(name, Card.read(folder))
        for file in panel.record.files:
            if not (lies_inside(folder, file) and (folder / file).is_file()):
                raise InputError(f"panel {name!r}: {folder / file} is missing; {again}")
        return panel

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.card.path.parent

    @cached_property
    def record(self) -> PanelRecord:
        """What its card says of it; `InputError` where it says nothing of the kind."""
        where = f"{self.card.where}: {PANEL_KEY}"
        return PanelRecord.parse(self.card.header.get(PANEL_KEY) or {}, where=where)

    @property
    def entry(self) -> CardFingerprint:
        """The fingerprint of its runs, by its card."""
        choose("panel", self.name, list(self.card.entries), where=self.card.where)
        return self.card.entries[self.name]

    @property
    def parts(self) -> dict[str, Path]:
        """Its Parquet files by part."""
        return {part: paths[0] for part, paths in self.card.shards(self.name).items()}

    @property
    def columns(self) -> set[str]:
        """Those that every part has."""
        return set.intersection(*(set(pq.read_schema(path).names) for path in self.parts.values()))

    @property
    def source(self) -> dict[str, str]:
        """How logs, locks and results name it."""
        about = {"repo": f"{PREFIX}{self.name}", "revision": self.entry.version}
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
            chosen = [parts[choose("part", part, list(parts), where=f"{PREFIX}{self.name}")]]
        log = RunLog.read(chosen, **options)
        log.metadata = with_hub_runs(log.metadata, [self.source])
        if HELD_OUT in parts and part != EXPLORE:
            log.looks = self
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

    def ledger(self) -> Ledger:
        """Every lock that looked, oldest first."""
        path = self.folder / LEDGER
        return Ledger.parse(load_yaml(path), where=str(path)) if path.exists() else Ledger()

    def refuse_worn_out(self, judge: Lock | Design) -> None:
        """Refuse another lock, or design without one, where as many as the card allows have looked.

        Raises:
            InputError: the panel is worn out.
        """
        known, allowed = self.ledger().locks, self.record.locks_allowed
        if len(known) >= allowed and not LookedRecord.by(judge).among(known):
            raise InputError(
                f"panel {self.name!r}: {len(known)} locks have judged its held-out runs, as many "
                f"as its card allows; judge on runs that nobody has looked at"
            )

    def keep_look(self, judge: Lock | Design) -> int:
        """Write a lock, or a design without one, into the ledger, once; returns how many it has."""
        path = self.folder / LEDGER
        with claimed(path, _TAKEN):
            known, look = self.ledger().locks, LookedRecord.by(judge)
            if not look.among(known):
                known = (*known, look)
                write_yaml(path, Ledger(locks=known).plain(), heading=_HEADING)
        return len(known)


def named(sources: Sequence[str]) -> FrozenPanel | None:
    """The panel that `--runs` names, where it names one and nothing beside it."""
    if len(sources) != 1 or not sources[0].startswith(PREFIX):
        return None
    return FrozenPanel.find(sources[0].removeprefix(PREFIX))


def panel_of(log: RunLog) -> FrozenPanel | None:
    """The panel that a log was read from; None where it, or a part of it, is from elsewhere."""
    sources = hub_sources(log.metadata)
    found = [one["repo"] for one in sources if one["what"] == "runs"]
    if len(found) != 1 or not found[0].startswith(PREFIX):
        return None
    return FrozenPanel.find(found[0].removeprefix(PREFIX))


@contextmanager
def naming_panels(log: RunLog) -> Iterator[None]:
    """Where runs of a panel lack a column, say which panels have it; other errors pass as they are.

    Raises:
        InputError: that error, with the panels in its message.
    """
    try:
        yield
    except InputError as error:
        column = error.location.get("column")
        if error.code != "missing_column" or panel_of(log) is None:
            raise
        found = [FrozenPanel.find(name) for name in here()]
        having = [panel.name for panel in found if column in panel.columns]
        said = f"panels that have it: {', '.join(having)}" if having else "no panel here has it"
        raise error.reworded(f"{error}; {said}") from error


# Making one.


def build(
    name: str,
    out: Path | None = None,
    work: Path | None = None,
    *,
    runs: Sources | None = None,
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
        jobs, device: as of `train_seeds`.

    Raises:
        InputError: no such recipe, `out` is there already, logs are lacking or given where runs are
            trained, or as `train_seeds`.
    """
    recipe = RECIPES[choose("panel", name, tuple(RECIPES))]
    out = out or Path(os.environ.get(PLACE, FOLDER)) / name
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
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.presets import design_of
    from gmb_hf.training.seeds import train_seeds

    explore, held_out = parse_seeds(config.seeds.explore), parse_seeds(config.seeds.evaluate)
    work = work or Path("runs", "panels", name)
    paths = train_seeds(config, [*explore, *held_out], work, jobs=jobs, device=device)
    log = RunLog.read(paths)
    by_seed = dict(zip(log.seeds, log.runs, strict=True))
    parts = {
        part: log.select([by_seed[seed] for seed in seeds])
        for part, seeds in ((EXPLORE, explore), (HELD_OUT, held_out))
    }
    design = design_of(config, parts[EXPLORE])
    return freeze(recipe, parts, design, out, command=command)


def refuse_frozen(out: Path) -> None:
    """Raise `InputError` where a panel lies there already."""
    if (out / CARD).exists():
        raise InputError(f"{out}: holds a panel, which is frozen; choose another --out")


def freeze(
    recipe: Recipe, parts: dict[str, RunLog], design: Design, out: Path, *, command: str
) -> FrozenPanel:
    """Write a panel, whole or not at all.

    Args:
        recipe: its name, question and licence.
        parts: the runs by part.
        design: of its evaluation, with the seeds of its parts.
        out: its folder, which is new.
        command: that makes runs of the same law.

    Raises:
        InputError: a panel is there already, or the disk is full.
    """
    refuse_frozen(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as workshop:
        shards = {
            part: [log.write(workshop / f"{part}.parquet", single=recipe.single)]
            for part, log in parts.items()
        }
        design.write(workshop / DESIGN)
        content = read_content(shards, "run")
        entry = CardFingerprint.of(
            content.items, version="v1", item="run", source_hash=bytes_hash(shards)
        )
        files = [*(paths[0] for paths in shards.values()), workshop / DESIGN]
        record = PanelRecord(
            asks=recipe.asks,
            credit=recipe.credit,
            files={path.name: source_hash(path) for path in files},
            locks_allowed=recipe.locks,
            command=command,
            versions={"gmb_hf": __version__, **_versions(parts)},
            curves=_curves(parts),
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
            PANEL_KEY: record.plain(),
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
            content=content,
            number=number,
            curves=CURVES,
        )
        write_text(workshop / CARD, text)
    return FrozenPanel(recipe.name, Card.read(out))


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
        PANEL_KEY: {panel.name: panel.record.plain() for panel in found},
    }
    text = render_card("panels", header, panels=found).replace(HERE, repo_id)
    files[CARD] = text.encode("utf-8")
    return publish(files, repo_id, "dataset", message=", ".join(chosen), private=private)
