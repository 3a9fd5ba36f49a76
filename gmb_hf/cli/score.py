"""`gmb score`: pretrained scores, which are fitted on some runs and calibrated on others.

Options:
    panels (name): Panels whose explore runs it is fitted on.

Arguments:
    score (name): A name of gmb score list, or a file.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import options
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import App, DesignCommand

if TYPE_CHECKING:
    from gmb_hf.indicators.catalogue import Kind

app = App()
_LEAST_RUNS = "9 runs with windows far from the event for 1 in 10, 19 for 1 in 20"
_USE = "--runs RUNS --metric COLUMN --horizon H --safe-gap G --out lock.yaml"


class FitCommand(DesignCommand):
    """Its panels come one after the other."""

    many = ("--panels", "--only")


@app.command("list")
def list_() -> None:
    """The pretrained scores that come with the package."""
    from gmb_hf.design.pretrained import PretrainedScore, shipped_scores

    found = [PretrainedScore.find(name) for name in shipped_scores()]
    columns = (
        Column("score", take="name"),
        Column("class", take="kind"),
        Column("members", "{:,}".format, take=lambda one: len(one.formula.members)),
        Column("columns", "{:,}".format, take=lambda one: len(one.needs)),
        Column("what it is", take="about", shrinks_to=20, wraps=True),
    )
    show.table(Table.of(found, columns))
    show.answered(scores=[{"name": one.name, "kind": one.kind, "hash": one.hash} for one in found])
    show.say(f"A lock makes the thresholds anew, on explore runs of your own: {_LEAST_RUNS}.")
    show.say_whole("next", "gmb score show NAME")


@app.command("show")
def show_(score: str) -> None:
    """What a pretrained score is made of, and what it was fitted on."""
    from gmb_hf.design.pretrained import PretrainedScore

    found = PretrainedScore.find(score)
    show.answered(**found.plain())
    show.say(f"{found.name}, {found.kind}. {found.about}".strip())
    show.say_whole("hash", found.hash)
    show.say_whole("event", found.event)
    far = f"{found.safe_gap_steps:,} steps or more"
    show.say_whole("windows", f"before it by {found.horizon_steps:,} steps or less, or by {far}")
    columns = (
        Column("fitted on", take="source"),
        Column("runs", "{:,}".format, take="runs"),
        Column("with both windows", "{:,}".format, take="with_both"),
    )
    show.table(Table.of(found.fitted_on, columns))
    weights = found.formula.by_member()
    rows = [(name, f"{share:.0%}") for name, share in weights[:12]]
    by_member = (Column("member"), Column("share of the log-odds", align="r"))
    show.table(Table(by_member, rows), above=True)
    if len(weights) > len(rows):
        show.say(
            f"and {len(weights) - len(rows)} members more; it reads {len(found.needs)} columns."
        )
    show.say_whole("next", f"gmb lock --pretrained {shlex.quote(score)} {_USE}")


@app.command(cls=FitCommand)
def fit(
    context: typer.Context,
    name: str,
    panels: list[str],
    out: Path,
    kind: str = "label-free",
    only: list[str] | None = None,
    about: str = "",
    force: bool = False,
) -> None:
    """Fit one on the explore runs of panels; it holds no threshold.

    Options:
        out (file): The file to write, NAME.yaml.
        kind: label-free, task-aware or label-using: what its members may know.
        only (indicator): These members alone; several are possible.
        about: A sentence on what it is for.
        force: Replace a file that is there.

    Arguments:
        name: Of the score: small letters, digits and _.
    """
    from gmb_hf.benchmark.prepare import prepare
    from gmb_hf.benchmark.pretrained import fit_score
    from gmb_hf.hub.panels import EXPLORE, FrozenPanel
    from gmb_hf.indicators.catalogue import KINDS

    told = cast("Kind", choose("class", kind, KINDS, where="--kind"))
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(f"score {name!r}: its name has small letters, digits and _, e.g. my_score")
    if out.exists() and not force:
        raise InputError(f"{out}: is there already; choose another --out, or pass --force")
    fields = options.design_fields(context)
    parts = {}
    for panel in map(FrozenPanel.find, panels):
        given = [one.plain() for one in panel.design().candidates if one.x_ensemble is None]
        with options.said_in_options():
            design = panel.design().replace(**{"candidates": given, **fields})
        parts[panel.name] = prepare(panel.read(EXPLORE), design)
    with show.counting("fitting", len(parts)) as done:
        found = fit_score(name, parts, told, only=only or (), about=about, on_done=done)
    found.write(out)
    runs = sum(one.with_both for one in found.fitted_on)
    show.say(
        f"{len(found.formula.members)} members, fitted on {runs:,} runs; {found.formula.setting}."
    )
    show.written([out], following=f"gmb lock --pretrained {shlex.quote(str(out))} {_USE}")


@app.command()
def push(score: str, repo: str, private: bool = False) -> None:
    """Commit a pretrained score to the Hub, where others name it hf://ORG/NAME.

    Options:
        private: Make a new repository private.

    Arguments:
        repo (ORG/NAME): The model repository, which is made where it is not there yet.
    """
    from gmb_hf.hub.scores import push_score

    done = push_score(score, repo, private=private)
    show.say_whole("published", f"{done.url} ({done.commit})")
    show.say_whole("next", f"gmb lock --pretrained hf://{repo} {_USE}")
