"""The tree of commands. The module of a command is imported when the command is typed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from gmb_hf._version import __version__
from gmb_hf.cli.options import App, Quiet, Verbose

_HELP = """May an early-warning score of a training run be trusted as an alarm?

Start with `gmb run --preset quick --out runs/quick`, or judge a column of your own logs:
`gmb evaluate --runs 'my/*.csv' --score COL --metric COL --horizon H --safe-gap G`."""

# Name -> its function, and the class of its parser if it has one of its own.
_COMMANDS: dict[str, tuple[str, str | None]] = {
    "run": ("run.run", "run.RunCommand"),
    "train": ("run.train", None),
    "indicators": ("catalogue.indicators", None),
    "plan": ("design.plan", "design.PlanCommand"),
    "explore": ("design.explore", "options.DesignCommand"),
    "lock": ("design.lock", "options.DesignCommand"),
    "evaluate": ("evaluate.evaluate", "options.DesignCommand"),
    "trial": ("panel.trial", None),
    "submit": ("panel.submit", None),
    "demo": ("panel.demo", None),
    "report": ("evaluate.report", None),
    "audit": ("runs.audit", None),
    "monitor": ("monitor.monitor", None),
    "heldout": ("language.heldout", "language.HeldoutCommand"),
    "benchmark": ("language.benchmark", "language.BenchmarkCommand"),
    "generalization": ("sequential.generalization", None),
}
# Name -> its commands, and what they are about.
_GROUPS = {
    "crucible": ("crucible.app", "Are the hardest known cases still ranked?"),
    "sequential": ("sequential.app", "Does it remember? Tasks in turn."),
    "icl": ("sequential.icl", "Does it learn from its prompt? In-context probes."),
    "scaling": ("language.app", "How does loss fall with size and data?"),
    "data": ("data.app", "Datasets: build, verify, export; tokenizers."),
    "runs": ("runs.app", "Anybody's logs to one table, and a look at them."),
    "panel": ("panel.app", "Frozen runs on which scores are compared."),
    "leaderboard": ("panel.leaderboard", "Submissions on panels: checked, and as a site."),
    "judge": ("judge.app", "Answers of checkpoints, rated by a model."),
    "model": ("run.app", "Models: made anew, and pushed to the Hub."),
    "metrics": ("catalogue.app", "Metrics as `evaluate` modules."),
    "prereg": ("design.app", "Begin a preregistration."),
    "results": ("evaluate.app", "Check results files, and compare two."),
}


def build(only: str | None = None) -> typer.Typer:
    """The application, with all its commands or with one of them."""
    app = App(name="gmb", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})

    @app.callback(invoke_without_command=True)
    def _root(
        version: bool = typer.Option(False, "--version", help="Show the version and stop."),
        quiet: Quiet = False,
        verbose: Verbose = 0,
    ) -> None:
        if version:
            print(f"gmb-hf {__version__}")
            raise typer.Exit

    for name, (function, parser) in _COMMANDS.items():
        if only in (None, name):
            app.command(name, cls=_load(parser) if parser else None)(_load(function))
    for name, (commands, about) in _GROUPS.items():
        if only in (None, name):
            app.add_typer(_load(commands), name=name, help=about)
    return app


def _load(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"gmb_hf.cli.{module}"), name)


def command(words: Sequence[str]) -> Any:
    """The parser of a command line.

    Building it takes longer than most commands, so that of a known command has no others in it.
    """
    first = next((word for word in words if not word.startswith("-")), None)
    return _parser(first if first in _COMMANDS or first in _GROUPS else None)


@functools.cache
def _parser(only: str | None) -> Any:
    return typer.main.get_command(build(only))


def typed_name(words: Sequence[str]) -> str:
    """The command of a command line, e.g. `gmb crucible score`."""
    names = [word for word in words if not word.startswith("-")]
    depth = 2 if names and names[0] in _GROUPS else 1
    return " ".join(["gmb", *names[:depth]])
