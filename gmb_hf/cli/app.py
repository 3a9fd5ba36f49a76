"""The tree of commands. Each command's module is light; what it needs is imported when it runs."""

from __future__ import annotations

import functools
from typing import Any

import typer

from gmb_hf._version import __version__
from gmb_hf.cli import (
    audit,
    crucible,
    data,
    evaluate,
    heldout,
    indicators,
    judge,
    lock,
    metrics,
    model,
    monitor,
    plan,
    results,
    run,
    runs,
    sequential,
)
from gmb_hf.cli import lock as prereg
from gmb_hf.cli import run as train
from gmb_hf.cli import sequential as generalization
from gmb_hf.cli.options import DesignCommand

_HELP = """May an early-warning score of a training run be trusted as an alarm?

Start with `gmb run --preset quick --out runs/quick`, or judge a column of your own logs:
`gmb evaluate --runs 'my/*.csv' --score COL --metric COL --horizon H --safe-gap G`."""


def build() -> typer.Typer:
    """The application."""
    app = typer.Typer(
        name="gmb",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def _root(
        version: bool = typer.Option(False, "--version", help="Show the version and stop."),
    ) -> None:
        if version:
            print(f"gmb-hf {__version__}")
            raise typer.Exit

    app.command("run", cls=run.RunCommand)(run.run)
    app.command("train")(train.train)
    app.command("indicators")(indicators.indicators)
    app.command("plan", cls=plan.PlanCommand)(plan.plan)
    app.command("explore", cls=DesignCommand)(lock.explore)
    app.command("lock", cls=DesignCommand)(lock.lock)
    app.command("evaluate", cls=DesignCommand)(evaluate.evaluate)
    app.command("audit")(audit.audit)
    app.command("monitor")(monitor.monitor)
    app.command("heldout", cls=heldout.HeldoutCommand)(heldout.heldout)
    app.command("generalization")(generalization.generalization)
    app.add_typer(crucible.app, name="crucible", help="Are the hardest known cases still ranked?")
    app.add_typer(sequential.app, name="sequential", help="Does it remember? Tasks in turn.")
    app.add_typer(data.app, name="data", help="Datasets: build, verify, export.")
    app.add_typer(runs.app, name="runs", help="Anybody's logs to one table, and a look at them.")
    app.add_typer(judge.app, name="judge", help="Answers of checkpoints, rated by a model.")
    app.add_typer(model.app, name="model", help="Trained models on the Hub.")
    app.add_typer(metrics.app, name="metrics", help="Metrics as `evaluate` modules.")
    app.add_typer(prereg.app, name="prereg", help="Begin a preregistration.")
    app.add_typer(results.app, name="results", help="Check results files, and compare two.")
    return app


@functools.cache
def command() -> Any:
    """The parser of the application; building it takes longer than most commands."""
    return typer.main.get_command(build())
