"""`gmb crucible`: score bundles, sum the scores up, and compare two models on the same items."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gmb_hf.tables import Column, Line, Row, Table

if TYPE_CHECKING:
    from gmb_hf.crucible.aggregate import Aggregated
    from gmb_hf.crucible.compare import Compared
    from gmb_hf.crucible.exposure import Finding, Pool
    from gmb_hf.crucible.grokking import FromRuns
    from gmb_hf.crucible.items import ItemScores
    from gmb_hf.crucible.scoreboard import Scoreboard
    from gmb_hf.training.config import BenchmarkSettings


def print_board(made: Scoreboard) -> None:
    """The scoreboard as a table, overall and by tier."""

    from gmb_hf.cli import screen as show
    from gmb_hf.escape import number

    heads = ("n", "correct", "pass", "margin", "q10", "median", "q90", "rank")
    columns = (Column("items"), *(Column(head, align="r") for head in heads))
    rows = [
        (
            name,
            f"{stats.n:,}",
            f"{stats.correct:,}",
            number(stats.pass_rate),
            number(stats.mean_margin),
            number(stats.q10_margin),
            number(stats.median_margin),
            number(stats.q90_margin),
            number(stats.mean_rank, 2),
        )
        for name, stats in {"overall": made.overall, **made.by_tier}.items()
    ]
    screen = show.console()
    show.say(made.eval_header.line)
    for part in Table(columns, rows).rich(screen.width):
        screen.print(part)
    if not made.by_tier:
        show.say("note: the items have no tiers; gmb crucible tiers assign gives them some")
    screen.print()


# Guardrails in the terminal: the level first, then what was found.


_STYLES = {"OK": "green", "WARNING": "yellow", "CRITICAL": "bold red", "SEVERE": "bold red"}
_COLUMNS = (Column("guardrail"), Column("", shrinks_to=30, wraps=True))


def levels(findings: Sequence[Finding]) -> Table:
    """The guardrails as a table, the worst first."""
    ordered = sorted(findings, key=lambda finding: -finding.level)
    rows = [
        [
            Text(finding.level.name, style=_STYLES[finding.level.name]),
            finding.message,
        ]
        for finding in ordered
    ]
    return Table(_COLUMNS, rows)


# `gmb crucible mine`: candidates that are hard in many lineups, not in one.


def mine(
    candidates: Annotated[Path, typer.Argument(help="JSONL of bundles: anchor and positive.")],
    pool: Annotated[Path, typer.Option(help="JSONL of texts that negatives are drawn from.")],
    encoder: Annotated[
        str | None, typer.Option(help="A sentence-transformers model, by name or path.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Of the candidates: .npy or .safetensors, a row per text.")
    ] = None,
    pool_embeddings: Annotated[Path | None, typer.Option(help="The same of the pool.")] = None,
    lineups: Annotated[int, typer.Option(help="Lineups that each candidate meets.")] = 10,
    lineup_size: Annotated[int, typer.Option(help="Negatives in a lineup.")] = 10,
    threshold: Annotated[float, typer.Option(help="Least danger that passes.")] = 0.0,
    min_passes: Annotated[int, typer.Option(help="Least passes that are accepted.")] = 3,
    near_duplicate: Annotated[
        float, typer.Option(help="Cosine from which two texts count as the same.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the lineups.")] = 0,
    out: Annotated[Path, typer.Option(help="A folder.")] = Path("mined"),
) -> None:
    """Try each candidate in seeded lineups; keep the dangerous ones, set doubtful ones apart."""
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.mining import Settings, mine_files
    from gmb_hf.escape import number

    settings = Settings(
        lineups=lineups,
        lineup_size=lineup_size,
        threshold=threshold,
        min_passes=min_passes,
        near_duplicate=near_duplicate,
        seed=seed,
    )
    with show.counting("encoding") as done:
        found = mine_files(
            candidates,
            pool,
            out,
            settings=settings,
            embeddings=embeddings,
            pool_embeddings=pool_embeddings,
            encoder=encoder,
            on_done=done,
        )
    result, summary = found.result, found.result.summary()
    interval = f"95% {number(result.ci_low)} to {number(result.ci_high)}"
    show.say(
        f"{result.accepted:,} of {result.tested:,} candidates accepted: mining pass rate "
        f"{number(result.pass_rate)} ({interval}).",
        style="bold",
    )
    strengths = ", ".join(f"{count:,} {name}" for name, count in summary["strengths"].items())
    show.say(f"accepted by strength: {strengths}; quarantined: {summary['quarantined']:,}")
    command = ["gmb", "crucible", "score", str(found.paths[0])]
    command += ["--encoder", encoder] if encoder else ["--encoder", "NAME"]
    show.written(list(found.paths), following=shlex.join(command))


# `gmb crucible tiers`: cutoffs of difficulty, frozen once and then only applied.


tiers_app = typer.Typer(no_args_is_help=True)

Scores = Annotated[Path, typer.Option(help="What gmb crucible score wrote.")]


@tiers_app.callback()
def _tiers() -> None:
    """Freeze cutoffs of difficulty, and apply them."""


@tiers_app.command()
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
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.score import fit_to_scores
    from gmb_hf.errors import InputError

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


@tiers_app.command()
def assign(
    tiers: Annotated[Path, typer.Option(help="Frozen cutoffs.")],
    scores: Scores,
    bundles: Annotated[Path, typer.Option(help="The bundles that were scored.")],
    out: Annotated[Path, typer.Option(help="Where to write bundles with their tiers.")] = Path(
        "tiered.jsonl"
    ),
) -> None:
    """Write the bundles with their tiers: the set that every later model is scored on."""
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.items import ItemScores
    from gmb_hf.crucible.score import assign_to_file
    from gmb_hf.crucible.tiers import Tiers

    found = assign_to_file(Tiers.read(tiers), ItemScores.read(scores), bundles, out)
    show.say(f"items: {_counts(found.counts)}.")
    if found.left_out:
        show.say(f"note: {found.left_out:,} items had no score and are not in the new file")
    show.written([found.path], following=shlex.join(["gmb", "crucible", "score", str(found.path)]))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


# `gmb crucible exposure|pareto|aggregate`: before a training, over configurations, over seeds.


def exposure(
    steps: Annotated[int, typer.Option(help="Training steps.")],
    batch_size: Annotated[int, typer.Option(help="Slots in a batch.")],
    probability: Annotated[
        float, typer.Option(help="That a slot is filled from these pools (p_tier3).")
    ],
    pool: Annotated[
        list[str], typer.Option(help="NAME=SIZE:RATIO, e.g. legacy=454:0.75; ratios add up to 1.")
    ],
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 if a pool is critical or severe.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("exposure.json"),
) -> None:
    """How often each item of a pool will be seen, and whether that is too rarely."""

    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.exposure import Level, check_pools, expected_exposures, worst
    from gmb_hf.errors import CheckFailed
    from gmb_hf.escape import number
    from gmb_hf.files import write_json

    found = expected_exposures(
        steps=steps,
        batch_size=batch_size,
        probability=probability,
        pools=[_pool(text) for text in pool],
    )
    findings = check_pools(found)
    path = write_json(
        out,
        {
            "pools": [item.to_dict() for item in found],
            "guardrails": [finding.to_dict() for finding in findings],
        },
    )
    heads = ("items", "ratio", "draws", "expected", "5% to 95%", "status")
    columns = (Column("pool", shrinks_to=12), *(Column(head, align="r") for head in heads))
    rows = [
        (
            item.name,
            f"{item.size:,}",
            number(item.ratio),
            f"{item.draws:,.0f}",
            number(item.expected, 1),
            "–" if item.low is None else f"{item.low:,} to {item.high:,}",
            item.status or "empty",
        )
        for item in found
    ]
    show.table(Table(columns, rows))
    show.table(levels(findings))
    if gate and worst(findings) >= Level.CRITICAL:
        show.say_whole("wrote", str(path))
        raise CheckFailed(f"items would be seen too rarely; {path} says which")
    following = shlex.join(["gmb", "crucible", "compare", "BEFORE.json", "AFTER.json", "--gate"])
    show.written([path], following=following)


def pareto(
    results: Annotated[
        Path, typer.Argument(help="CSV, JSON or JSONL: name, frozen_tier3, organic_holdout.")
    ],
    draws: Annotated[int, typer.Option(help="Bootstrap resamples of the items.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the resamples.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Where to write: this name with .json, .png and .svg.")
    ] = Path("pareto"),
) -> None:
    """Which configurations no other one beats in both retention and generalization."""

    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.figures import pareto_plot
    from gmb_hf.crucible.pareto import find_frontier
    from gmb_hf.escape import number
    from gmb_hf.report.style import save_figure

    found = find_frontier(results, draws=draws, seed=seed)
    stem = out.with_suffix("") if out.suffix in (".json", ".png", ".svg") else out
    figure = pareto_plot(found.names, found.frozen, found.organic, found.on_frontier)
    paths = [found.write(stem.with_name(f"{stem.name}.json")), *save_figure(figure, stem)]
    columns = (
        Column("configuration", shrinks_to=16),
        Column("frozen tier3", number),
        Column("organic", number),
        Column("most surely beaten by", shrinks_to=20),
    )
    rows: list[Row | Line] = []
    for heading, on_frontier in (("on the frontier", True), ("dominated", False)):
        members = [row for row in found.rows() if row.on_frontier == on_frontier]
        rows += [Line(heading)] if members else []
        rows += [(row.name, row.frozen, row.organic, _beaten(row.beaten_by)) for row in members]
    show.table(Table(columns, rows))
    if not found.dominance:
        show.say(
            "note: with the columns frozen_scores and organic_scores (files of gmb crucible score) "
            "the items are resampled, to say how sure it is that one beats another"
        )
    following = shlex.join(["gmb", "crucible", "compare", "BEFORE.json", "AFTER.json"])
    show.written(paths, following=following)


def aggregate(
    boards: Annotated[list[Path], typer.Argument(help="Scoreboards, one per training seed.")],
    against: Annotated[
        Path | None, typer.Option(help="What this command left of another configuration.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="t (Student's interval) or normal (the spec's 1.96).")
    ] = "t",
    allow_fingerprint_mismatch: Annotated[
        bool, typer.Option("--allow-fingerprint-mismatch", help="Take different data all the same.")
    ] = False,
    draws: Annotated[int, typer.Option(help="Bootstrap resamples of seeds and items.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the resamples.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("aggregate.json"),
) -> None:
    """Mean, spread and interval over training seeds, overall and by tier."""
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.aggregate import aggregate_files

    found = aggregate_files(
        boards,
        against=against,
        method=method,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
        draws=draws,
        seed=seed,
    )
    path = found.write(out)
    _print_aggregate(found)
    more = ["OTHER_BOARDS", "--against", str(path), "--out", "OTHER.json"]
    show.written([path], following=shlex.join(["gmb", "crucible", "aggregate", *more]))


def _print_aggregate(found: Aggregated) -> None:

    from gmb_hf.cli import screen as show
    from gmb_hf.escape import number

    heads = ("metric", "mean", "std", "min", "max", "95% interval")
    columns = (
        Column("items"),
        *(Column(head, align="l" if head == "metric" else "r") for head in heads),
    )
    rows: list[Row | Line] = []
    sides = [("", found.groups), ("against: ", found.against or {})]
    for prefix, side in sides:
        for name, metrics in side.items():
            rows.append(Line(f"{prefix}{name}"))
            for metric in ("pass_rate", "mean_margin", "q10_margin", "mean_rank"):
                stats = metrics[metric]
                cells: Sequence[str] = (metric, *["–"] * 5)
                if stats is not None:
                    interval = f"{number(stats.ci_low)} to {number(stats.ci_high)}"
                    cells = (
                        metric,
                        number(stats.mean),
                        number(stats.std),
                        number(stats.min),
                        number(stats.max),
                        "–" if stats.ci_low is None else interval,
                    )
                rows.append(("", *cells))
    show.table(Table(columns, rows))
    for name, found_difference in found.bootstrap.items():
        show.say(
            f"{name}: pass rate {found_difference.difference:+.3f} against the other "
            f"configuration, 95% {found_difference.ci_low:+.3f} to {found_difference.ci_high:+.3f} "
            "(seeds and items resampled)"
        )
    for name, separated in found.separated.items():
        if separated is not None:
            word = "is" if separated else "is not"
            show.say(f"{name}: the pass rate {word} two points apart (the spec's rule for 3 seeds)")
    for note in found.notes:
        show.say(f"note: {note}")


def _beaten(by: tuple[str, float] | None) -> str:
    return "" if by is None else f"{by[0]} ({by[1]:.0%})"


def _pool(text: str) -> Pool:
    from gmb_hf.crucible.exposure import Pool
    from gmb_hf.errors import InputError

    name, _, rest = text.partition("=")
    size, _, ratio = rest.partition(":")
    try:
        return Pool(name, int(size), float(ratio))
    except ValueError:
        raise InputError(
            f"--pool {text!r}: must be NAME=SIZE:RATIO, such as legacy=454:0.75"
        ) from None


# `gmb crucible from-runs`: bundles of equations, tracked while models learn to solve them.


def from_runs(
    out: Annotated[Path, typer.Option(help="A folder.")],
    preset: Annotated[
        str, typer.Option(help="smoke, quick, standard, hierarchical, paper or reference.")
    ] = "quick",
    seeds: Annotated[str, typer.Option(help="Of the runs, e.g. 0:4 or 3,7.")] = "0:4",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; the preset's by default.")
    ] = None,
    bundles: Annotated[int, typer.Option(help="Bundles of each seed.")] = 512,
    negatives: Annotated[int, typer.Option(help="Negatives in a bundle.")] = 16,
    bundle_seed: Annotated[int, typer.Option(help="Of the drawing of the bundles.")] = 0,
    model: Annotated[
        Path | None,
        typer.Option(help="Ask this saved model instead of training; --seeds is its seed."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train seeds and ask each the same at every checkpoint: which equations have one answer?"""
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.grokking import Drawing
    from gmb_hf.errors import InputError
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.presets import preset as named

    spaced = [] if every is None else [f"training.checkpoint_every={every}"]
    config = named(preset).changed([*(changes or []), *spaced])
    wanted = parse_seeds(seeds)
    drawing = Drawing(bundles, negatives, bundle_seed)
    if model is None:
        from gmb_hf.crucible.grokking import from_runs as ask_runs

        found = ask_runs(config, wanted, out, drawing=drawing, device=device)
        _print_course(found)
        print_board(found.asked.board)
        for note in found.notes:
            show.say(f"note: {note}")
        show.say_whole("compare", _comparing(out))
        show.written(list(found.paths), following=_following(config.benchmark, out))
        return
    if len(wanted) != 1:
        raise InputError(
            f"--seeds {seeds}: a saved model is one run; give its one seed, e.g. --seeds 0"
        )
    from gmb_hf.crucible.grokking import ask_model

    asked = ask_model(model, config, wanted[0], out, drawing=drawing)
    print_board(asked.board)
    show.written(list(asked.paths), following=_comparing(out))


def _print_course(found: FromRuns) -> None:
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.grokking import course_of
    from gmb_hf.escape import number

    course = course_of(found.log, found.events)
    places = [("at memorisation", course.memorised), ("at t*", course.event)]
    q10 = [f"{number(value)} {when}" for when, value in places if value is not None]
    show.say(
        f"q10 of the held-out margins: {', '.join([*q10, f'{number(course.last)} at the end'])} "
        f"(medians; {course.n_runs:,} runs, {course.n_events:,} with an event).",
        style="bold",
    )
    if course.share is not None:
        show.say(f"of its rise since memorisation, {number(course.share)} came before t* (median)")


def _following(design: BenchmarkSettings, out: Path) -> str:
    command = ["gmb", "evaluate", "--runs", str(out / "logs"), "--metric", "test_acc"]
    command += ["--score", "crucible_margin_q10"]
    command += ["--horizon", str(design.horizon)]
    command += ["--safe-gap", str(design.safe_gap)]
    return shlex.join(command)


def _comparing(out: Path) -> str:
    """Of a training with the same seeds and task: the items are the same."""
    return shlex.join(
        ["gmb", "crucible", "compare", str(out / "scoreboard.json"), "OTHER/scoreboard.json"]
    )


app = typer.Typer(no_args_is_help=True)
app.add_typer(tiers_app, name="tiers", help="Freeze cutoffs of difficulty, and apply them.")
app.command("exposure")(exposure)
app.command("pareto")(pareto)
app.command("aggregate")(aggregate)
app.command("mine")(mine)
app.command("from-runs")(from_runs)

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
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.score import score_bundles

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
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.score import scoreboard_of

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
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.compare import compare_files
    from gmb_hf.errors import CheckFailed, InputError

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
    from gmb_hf.cli import screen as show
    from gmb_hf.crucible.score import summaries
    from gmb_hf.escape import number

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

    from gmb_hf.cli import screen as show
    from gmb_hf.escape import p_value

    tests = {test.group: test for test in found.tests}
    heads = ("n", "pass", "q10", "margin", "rank", "gained", "lost", "p pass", "p margin")
    columns = (Column("change in"), *(Column(head, align="r") for head in heads))
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
        rows.append(cells)
    if not found.comparison.comparable:
        show.say("NOT COMPARABLE: " + "; ".join(found.comparison.mismatches), style="bold red")
    show.table(Table(columns, rows))
    show.table(levels(found.findings))
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
