"""Which runs a command reads: logs, panels and datasets of the Hub; and which of them it may use.

What reads panels, or pulls from the Hub, is loaded where a source names one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from gmb_hf.base.errors import InputError, first_of
from gmb_hf.design.design import Design
from gmb_hf.runs.metadata import DIFFERS, PANEL, hub_sources, with_hub_runs
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.hub.panels import FrozenPanel

logger = logging.getLogger(__name__)


def named(sources: Sequence[str]) -> FrozenPanel | None:
    """The panel that `--runs` names, where it names one and nothing beside it."""
    return _panel(sources[0]) if len(sources) == 1 and sources[0].startswith(PANEL) else None


def panel_of(log: RunLog) -> FrozenPanel | None:
    """The panel that a log was read from; None where it, or a part of it, is from elsewhere."""
    return named([one["repo"] for one in hub_sources(log.metadata) if one["what"] == "runs"])


def _panel(source: str) -> FrozenPanel:
    from gmb_hf.hub.panels import FrozenPanel

    return FrozenPanel.find(source.removeprefix(PANEL))


@contextmanager
def naming_panels(log: RunLog) -> Iterator[None]:
    """Where runs of a panel lack a column, say which panels have it; other errors pass as they are.

    Raises:
        InputError: that error, with the panels in its message.
    """
    try:
        yield
    except InputError as error:
        panel = panel_of(log)
        if error.code != "missing_column" or panel is None:
            raise
        from gmb_hf.hub.panels import having

        column = error.location.get("column")
        found = ", ".join(panel.name for panel in having(column))
        said = f"panels that have it: {found}" if found else "no panel here has it"
        if panel.said_of_cut:
            said += f"; of {PANEL}{panel.name} this is {panel.said_of_cut}"
            said += f", which gmb panel fetch {panel.name} --from SOURCE brings"
        raise error.reworded(f"{error}; {said}") from error


def read_runs(sources: str | Path | Sequence[str | Path], **options: Any) -> RunLog:
    """`RunLog.read` of files, folders, globs, `panel:NAME`, `hf://datasets/ORG/NAME@REV[/CONFIG]`.

    What came from the Hub, or is a panel, is noted in the log's metadata, with its fingerprint.
    The options are those of `RunLog.read`.

    Raises:
        InputError: as `RunLog.read`, `FrozenPanel.find` and `pull_configs`, or a config that holds
            no run logs.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    places: list[str | Path] = []
    pulled: list[dict[str, str]] = []
    for source in given:
        if str(source).startswith(PANEL):
            panel = _panel(str(source))
            panel.check()
            places += panel.parts.values()
            pulled.append(panel.source)
        elif str(source).startswith("hf://"):
            from gmb_hf.hub.datasets import pull_runs

            for config in pull_runs(str(source)):
                places += [path for paths in config.files.values() for path in paths]
                pulled.append(config.source)
        else:
            places.append(source)
    log = RunLog.read(places if pulled else sources, **options)
    if pulled:
        log.metadata = with_hub_runs(log.metadata, pulled)
    logger.info(
        "read %d runs, %d rows from %s", len(log.runs), log.table.num_rows, first_of(given, 3)
    )
    return log


def design_for(
    log: RunLog,
    prereg_path: str | Path | None,
    preset_name: str | None,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> Design:
    """The preregistration or preset that was given, or the design that the log was trained for.

    The log is of explore runs; `fields` of the design are to be different from what those say.

    Raises:
        InputError: both were given, or neither and the log does not say which one.
    """
    if prereg_path is not None and preset_name is not None:
        raise InputError("--prereg and --preset are two designs; give one of them")
    if prereg_path is not None:
        return Design.read(prereg_path).replace(**fields)
    panel = panel_of(log)
    if panel is not None and preset_name is None:
        return panel.design().replace(**fields)
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.presets import design_of, preset

    if preset_name is not None:
        return design_of(preset(preset_name), log, fields)
    if not has_design(log):
        differing = _differing(log)
        why = f"the logs were trained for different ones ({differing[0]})" if differing else ""
        raise InputError(
            f"no design{': ' * bool(why)}{why}; pass --prereg FILE (gmb prereg init writes one to "
            "fill in), or --preset NAME"
        )
    name = log.metadata.get("preset", "custom")
    return design_of(RunConfig.from_dict({"preset": name, **log.metadata["design"]}), log, fields)


def has_design(log: RunLog) -> bool:
    """Whether runs say by themselves which design is theirs: a panel, or logs of gmb."""
    said = isinstance(log.metadata.get("design"), dict) and not _differing(log)
    return said or panel_of(log) is not None


def _differing(log: RunLog) -> list[str]:
    return [key for key in log.metadata.get(DIFFERS, {}) if key.startswith("design.")]


def part_of(
    log: RunLog, design: Design, part: Literal["explore", "held-out"]
) -> tuple[RunLog, int]:
    """The runs that are explored, or held out, and how many others were set aside.

    Raises:
        InputError: none of the declared seeds, or names, of that part is in the log.
    """
    named = bool(design.runs_explore or design.runs_eval)
    known: Sequence[str | int | None] = log.runs if named else log.seeds
    declared: tuple[Collection[str | int | None], Collection[str | int | None]]
    declared = (design.seeds_explore, design.seeds_eval)
    if named:
        declared = (design.runs_explore, design.runs_eval)
    chosen, unwanted = map(set, declared if part == "explore" else reversed(declared))
    rows = list(zip(log.runs, known, strict=True))
    kept = [run for run, mark in rows if (mark in chosen if chosen else mark not in unwanted)]
    if not kept:
        what = "x_runs" if named else "seeds"
        field = f"boundary.{what}_{'explore' if part == 'explore' else 'eval'}"
        raise InputError(
            f"none of the {len(log.runs)} runs is a declared {part} run ({field}); check --runs, "
            f"or the {'names' if named else 'seeds'}"
        )
    return (log if len(kept) == len(rows) else log.select(kept)), len(rows) - len(kept)
