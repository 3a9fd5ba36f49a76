"""`gmb crucible`: score bundles, sum the scores up, and compare two models on the same items."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmb_hf.cli import crucible_from_runs, crucible_mine, crucible_tiers, crucible_training

if TYPE_CHECKING:
    from gmb_hf.crucible.items import ItemScores
    from gmb_hf.workflows.crucible_comparing import Compared

app = typer.Typer(no_args_is_help=True)
app.add_typer(
    crucible_tiers.app, name="tiers", help="Freeze cutoffs of difficulty, and apply them."
)
app.command("exposure")(crucible_training.exposure)
app.command("pareto")(crucible_training.pareto)
app.command("aggregate")(crucible_training.aggregate)
app.command("mine")(crucible_mine.mine)
app.command("from-runs")(crucible_from_runs.from_runs)

Mismatch = Annotated[
    bool,
    typer.Option(
        "--allow-fingerprint-mismatch",
        help="Show numbers of different data all the same; they are not comparable.",
    ),
]


@app.callback()
def _crucible() -> None:
    """Does the model still rank its hardest known cases right?"""


@app.command()
def score(
    bundles: Annotated[Path, typer.Argument(help="JSONL: anchor, positive, negatives a line.")],
    embeddings: Annotated[
        Path | None, typer.Option(help=".npy or .safetensors with a row per text.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="A sentence-transformers model, by name or path.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What made the similarities; the encoder by default.")
    ] = None,
    skip_empty: Annotated[
        bool, typer.Option("--skip-empty", help="Leave out items without negatives.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where to write the items' scores.")] = Path(
        "scores.parquet"
    ),
) -> None:
    """Margin and rank of each item, by the similarities in the file or by embeddings."""
    from gmb_hf.cli import show
    from gmb_hf.workflows.crucible_scoring import score_bundles

    with show.counting("encoding") as done:
        scores = score_bundles(
            bundles,
            embeddings=embeddings,
            encoder=encoder,
            name=name,
            empty="skip" if skip_empty else "error",
            on_done=done,
        )
    path = scores.write(out)
    _print_scores(scores)
    following = (
        ["tiers", "fit", "--scores", str(path)]
        if scores.tiers is None
        else ["scoreboard", "--scores", str(path), "--eval-version", "v1"]
    )
    show.written([path], following=shlex.join(["gmb", "crucible", *following]))


@app.command()
def scoreboard(
    scores: Annotated[Path, typer.Option(help="What gmb crucible score wrote.")],
    eval_version: Annotated[str, typer.Option(help="Version of the evaluation set, e.g. v23.")],
    seed: Annotated[int, typer.Option(help="Seed of the evaluation.")] = 42,
    checkpoint: Annotated[
        str | None, typer.Option(help="The model; what made the similarities by default.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("scoreboard.json"),
) -> None:
    """Sum up the items overall and by tier, under the fingerprint of their data."""
    from gmb_hf.cli import show
    from gmb_hf.cli.crucible_board import print_board
    from gmb_hf.workflows.crucible_scoring import scoreboard_of

    made = scoreboard_of(scores, out, version=eval_version, seed=seed, checkpoint=checkpoint)
    print_board(made)
    following = shlex.join(["gmb", "crucible", "compare", str(out), "OTHER.json"])
    show.written([out], following=following)


@app.command()
def compare(
    previous: Annotated[Path, typer.Argument(help="The older scoreboard.")],
    following: Annotated[Path, typer.Argument(help="The newer scoreboard.")],
    organic_before: Annotated[
        Path | None, typer.Option(help="Scoreboard of the organic holdout, before.")
    ] = None,
    organic_after: Annotated[Path | None, typer.Option(help="The same, after.")] = None,
    allow_fingerprint_mismatch: Mismatch = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 from a CRITICAL guardrail on.")
    ] = False,
    permutations: Annotated[int, typer.Option(help="Sign flips of a permutation test.")] = 9999,
    seed: Annotated[int, typer.Option(help="Of the sign flips.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("comparison.json"),
) -> None:
    """What changed between two scoreboards of the same data, with guardrails and paired tests."""
    from gmb_hf.cli import show
    from gmb_hf.validation import CheckFailed, InputError
    from gmb_hf.workflows.crucible_comparing import compare_files

    if (organic_before is None) != (organic_after is None):
        raise InputError("--organic-before and --organic-after go together; give both")
    organic = (organic_before, organic_after) if organic_before and organic_after else None
    found = compare_files(
        previous,
        following,
        organic=organic,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
        permutations=permutations,
        seed=seed,
    )
    path = found.write(out)
    _print_comparison(found)
    if gate and not found.passes:
        show.say_whole("wrote", str(path))
        reason = "; ".join(found.obstacles)
        raise CheckFailed(f"the gate is closed: {reason} (see {path})")
    board = shlex.join(["gmb", "crucible", "aggregate", str(following), "OTHER_SEED.json"])
    show.written([path], following=board)


def _print_scores(scores: ItemScores) -> None:
    from gmb_hf.cli import show
    from gmb_hf.reporting.escape import number
    from gmb_hf.workflows.crucible_scoring import summaries

    margin, rank = summaries(scores)
    show.say(
        f"{margin.n:,} items by {scores.origin.encoder}: pass rate {number(margin.pass_rate)} "
        f"({number(rank.chance_pass_rate)} by chance), ties {number(margin.tie_rate)}.",
        style="bold",
    )
    show.say(
        f"margin: mean {number(margin.mean_margin)}, q10 {number(margin.q10_margin)}, median "
        f"{number(margin.median_margin)}, q90 {number(margin.q90_margin)}"
    )
    hits = ", ".join(f"hits@{k} {number(value)}" for k, value in rank.hits.items())
    show.say(
        f"rank: mean {number(rank.mean_rank)} (realistic {number(rank.mean_rank_realistic)}, "
        f"pessimistic {number(rank.mean_rank_pessimistic)}), adjusted mean rank index "
        f"{number(rank.adjusted_mean_rank_index)}, MRR {number(rank.mrr)}, {hits}"
    )
    if margin.n_skipped:
        show.say(f"note: {margin.n_skipped:,} items without negatives were left out")


def _print_comparison(found: Compared) -> None:
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.crucible_levels import levels
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.escape import p_value

    tests = {test.group: test for test in found.tests}
    heads = ("n", "pass", "q10", "margin", "rank", "gained", "lost", "p pass", "p margin")
    columns = (Column("change in"), *(Column(head, right=True) for head in heads))
    rows = []
    for name, change in {"overall": found.comparison.overall, **found.comparison.by_tier}.items():
        test = tests.get(name)
        cells = (
            name,
            f"{test.n:,}" if test else "–",
            _signed(change["pass_rate"]),
            _signed(change["q10_margin"]),
            _signed(change["mean_margin"]),
            _signed(change["mean_rank"]),
            f"{test.mcnemar.only_second:,}" if test else "–",
            f"{test.mcnemar.only_first:,}" if test else "–",
            p_value(test.mcnemar_adjusted if test else None),
            p_value(test.permutation_adjusted if test else None),
        )
        rows.append([Text(cell) for cell in cells])
    screen = show.console()
    if not found.comparison.comparable:
        show.say("NOT COMPARABLE: " + "; ".join(found.comparison.mismatches), style="bold red")
    for part in lay_out(columns, [Group(rows)], screen.width):
        screen.print(part)
    screen.print()
    for line in levels(found.findings, screen.width):
        screen.print(line)
    screen.print()
    for note in found.notes:
        show.say(f"note: {note}")
    if found.tests:
        show.say(
            "gained, lost: items that only the newer, only the older model passes. p: exact "
            "McNemar test of the passes, sign-flip test of the margins; Holm-adjusted over rows.",
            style="dim",
        )


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"
