"""`gmb crucible tiers`: cutoffs of difficulty, frozen once and then only applied."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)

Scores = Annotated[Path, typer.Option(help="What gmb crucible score wrote.")]


@app.callback()
def _tiers() -> None:
    """Freeze cutoffs of difficulty, and apply them."""


@app.command()
def fit(
    scores: Scores,
    thresholds: Annotated[
        tuple[float, float], typer.Option(help="Quantiles of the danger at the two cutoffs.")
    ] = (0.7, 0.9),
    method: Annotated[
        str, typer.Option(help="inverted_cdf, or spec for the reference's algorithm.")
    ] = "inverted_cdf",
    out: Annotated[Path, typer.Option(help="Where to freeze them.")] = Path("tiers.json"),
    force: Annotated[bool, typer.Option("--force", help="Replace tiers that are there.")] = False,
) -> None:
    """Freeze the cutoffs of a corpus, with the encoder and the corpus that they come from."""
    from gmb_hf.cli import show
    from gmb_hf.validation import InputError
    from gmb_hf.workflows.crucible_scoring import fit_to_scores

    if out.exists() and not force:
        raise InputError(
            f"{out}: tiers are frozen there already; other cutoffs would hold other items. Choose "
            "another file, or replace them with --force"
        )
    found = fit_to_scores(scores, thresholds=thresholds, method=method)
    path = found.tiers.write(out)
    show.say(
        f"danger up to {found.tiers.t1_cutoff:.6g} is tier1_easy, up to "
        f"{found.tiers.t2_cutoff:.6g} tier2_robust; items: {_counts(found.tiers.counts)}."
    )
    for note in found.notes:
        show.say(f"note: {note}")
    command = ["gmb", "crucible", "tiers", "assign", "--tiers", str(path)]
    command += ["--scores", str(scores), "--bundles", found.bundles]
    show.written([path], following=shlex.join(command))


@app.command()
def assign(
    tiers: Annotated[Path, typer.Option(help="Frozen cutoffs.")],
    scores: Scores,
    bundles: Annotated[Path, typer.Option(help="The bundles that were scored.")],
    out: Annotated[Path, typer.Option(help="Where to write bundles with their tiers.")] = Path(
        "tiered.jsonl"
    ),
) -> None:
    """Write the bundles with their tiers: the set that every later model is scored on."""
    from gmb_hf.cli import show
    from gmb_hf.crucible.items import ItemScores
    from gmb_hf.crucible.tiers import Tiers
    from gmb_hf.workflows.crucible_scoring import assign_to_file

    found = assign_to_file(Tiers.read(tiers), ItemScores.read(scores), bundles, out)
    show.say(f"items: {_counts(found.counts)}.")
    if found.left_out:
        show.say(f"note: {found.left_out:,} items had no score and are not in the new file")
    show.written([found.path], following=shlex.join(["gmb", "crucible", "score", str(found.path)]))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
