"""`gmb sequential`: tasks one after the other, and what a model keeps of them."""

from __future__ import annotations

import typer

from gmb_hf.cli import sequential_eval, sequential_report, sequential_run

app = typer.Typer(no_args_is_help=True)
app.command("run")(sequential_run.run)
app.command("eval")(sequential_eval.evaluate)
app.command("report")(sequential_report.report)


@app.callback()
def _sequential() -> None:
    """Train tasks one after the other, and measure what is kept."""
