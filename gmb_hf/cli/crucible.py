"""`gmb crucible`: score bundles, sum the scores up, and compare two models on the same items.

Options:
    scores: What gmb crucible score wrote.
    encoder: A sentence-transformers model, by name or path.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gmb_hf.base.errors import CheckFailed, InputError
from gmb_hf.base.escape import number, p_value
from gmb_hf.base.escape import steps as thousands
from gmb_hf.base.files import check_not_read, write_json
from gmb_hf.base.tables import Column, Line, Row, Table, follow, section
from gmb_hf.cli import screen
from gmb_hf.cli.options import App

if TYPE_CHECKING:
    from gmb_hf.crucible.exposure import GuardrailFinding
    from gmb_hf.crucible.scoreboard import Scoreboard

app = App()
tiers_app = App()
app.add_typer(tiers_app, name="tiers", help="Freeze cutoffs of difficulty, and apply them.")


_command = partial(screen.command, "crucible")


@app.command()
def exposure(
    steps: int,
    batch_size: int,
    probability: float,
    pool: list[str],
    gate: bool = False,
    out: Path | None = None,
) -> None:
    """How often each item of a pool will be seen, and whether that is too rarely.

    Options:
        steps: Training steps.
        batch_size: Slots in a batch.
        probability: That a slot is filled from these pools (p_tier3).
        pool: NAME=SIZE:RATIO, e.g. legacy=454:0.75; ratios add up to 1.
        gate: Exit with 1 if a pool is critical or severe.
    """
    from gmb_hf.crucible.exposure import Level, Pool, check_pools, expected_exposures, worst

    pools = []
    for text in pool:
        name, _, rest = text.partition("=")
        size, _, ratio = rest.partition(":")
        try:
            pools.append(Pool(name, int(size), float(ratio)))
        except ValueError:
            must = "must be NAME=SIZE:RATIO, such as legacy=454:0.75"
            raise InputError(f"--pool {text!r}: {must}") from None
    slots = {"steps": steps, "batch_size": batch_size}
    found = expected_exposures(**slots, probability=probability, pools=pools)
    findings = check_pools(found)
    guardrails = [finding.to_dict() for finding in findings]
    between = "{0.low:,} to {0.high:,}".format
    content = {"pools": [item.to_dict() for item in found], "guardrails": guardrails}
    paths = [] if out is None else [write_json(out, content)]
    screen.answered(**content)
    columns = (
        Column("pool", take="name", shrinks_to=12),
        Column("items", thousands, take="size"),
        Column("ratio", number, take="ratio"),
        Column("draws", thousands, take="draws"),
        Column("expected", lambda value: number(value, 1), take="expected"),
        Column("5% to 95%", align="r", take=lambda one: None if one.low is None else between(one)),
        Column("status", take="status", null="empty", align="r"),
    )
    screen.table(Table.of(found, columns))
    _print_guardrails(findings)
    if gate and worst(findings) >= Level.CRITICAL:
        screen.written(paths, following=None)
        raise CheckFailed("items would be seen too rarely; the guardrails above say which")
    screen.written(paths, following=_command("compare", "BEFORE.json", "AFTER.json", "--gate"))


@app.command()
def pareto(
    results: Path,
    draws: int = 2000,
    seed: int = 0,
    out: Path | None = None,
    figures: bool = True,
) -> None:
    """Which configurations no other one beats in both retention and generalization.

    Arguments:
        results: CSV, JSON or JSONL: name, frozen_tier3, organic_holdout.

    Options:
        draws: Bootstrap resamples of the items.
        seed: Of the resamples.
        out: Write the answer: this name with .json, .png and .svg.
    """
    from gmb_hf.crucible.pareto import find_frontier

    if out is not None:
        check_not_read(out.with_name(f"{out.name}.json"), results)
        check_not_read(out.with_suffix(".json"), results)
    found = find_frontier(results, draws=draws, seed=seed)
    paths = [] if out is None else found.write(out, figures=figures)
    screen.answered(**found.to_dict())
    columns = (
        Column("configuration", shrinks_to=16),
        Column("frozen tier3", number),
        Column("organic", number),
        Column("most surely beaten by", shrinks_to=20),
    )
    rows: list[Row | Line] = []
    for heading, on_frontier in (("on the frontier", True), ("dominated", False)):
        members = []
        for one in found.configurations:
            by = found.beaten_by(one.name)
            beaten = "" if by is None else f"{by[0]} ({by[1]:.0%})"
            if one.on_frontier == on_frontier:
                members.append((one.name, one.frozen_tier3, one.organic_holdout, beaten))
        rows += section(members, heading)
    screen.table(Table(columns, rows))
    if not found.dominance_probability:
        screen.notes(
            [
                "with the columns frozen_scores and organic_scores (files of gmb crucible score) "
                "the items are resampled, to say how sure it is that one beats another"
            ]
        )
    screen.written(paths, following=_command("compare", "BEFORE.json", "AFTER.json"))


@app.command()
def aggregate(
    boards: list[Path],
    against: Path | None = None,
    method: str = "t",
    allow_fingerprint_mismatch: bool = False,
    draws: int = 2000,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Mean, spread and interval over training seeds, overall and by tier.

    Arguments:
        boards: Scoreboards, one per training seed.

    Options:
        against: What this command left of another configuration.
        method: t (Student's interval) or normal (the spec's 1.96).
        allow_fingerprint_mismatch: Take different data all the same.
        draws: Bootstrap resamples of seeds and items.
        seed: Of the resamples.
    """
    from gmb_hf.crucible.compare import aggregate_files

    check_not_read(out, *boards, against)
    found = aggregate_files(
        boards,
        against=against,
        method=method,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
        draws=draws,
        seed=seed,
    )
    screen.answered(aggregate=found)
    fields = ("mean", "std", "min", "max")
    columns = [Column("items"), Column("metric"), *(Column(name, number) for name in fields)]
    columns.append(Column("95% interval", align="r"))
    rows: list[Row | Line] = []
    for prefix, side in (("", found.groups), ("against: ", found.against or {})):
        for name, metrics in side.items():
            rows.append(Line(f"{prefix}{name}"))
            for metric in ("pass_rate", "mean_margin", "q10_margin", "mean_rank"):
                numbers = [follow(metrics[metric], field) for field in fields]
                low, high = (follow(metrics[metric], end) for end in ("ci_low", "ci_high"))
                interval = None if low is None else f"{number(low)} to {number(high)}"
                rows.append(("", metric, *numbers, interval))
    screen.table(Table(columns, rows))
    for name, gap in found.bootstrap.items():
        screen.tell("gap", name=name, gap=gap)
    for name, separated in found.separated.items():
        if separated is not None:
            rate = f"the pass rate {'is' if separated else 'is not'} two points apart"
            screen.say(f"{name}: {rate} (the spec's rule for 3 seeds)")
    screen.notes(found.notes)
    following = _command("aggregate", *boards, out="aggregate.json")
    if out is not None:
        following = _command("aggregate", "OTHER_BOARDS", against=out, out="OTHER.json")
    screen.written([] if out is None else [found.write(out)], following=following)


@app.command()
def mine(
    candidates: Path,
    pool: Path,
    out: Path,
    encoder: str | None = None,
    embeddings: Path | None = None,
    pool_embeddings: Path | None = None,
    lineups: int = 10,
    lineup_size: int = 10,
    threshold: float | None = None,
    organic: Path | None = None,
    quantile: float | None = None,
    min_passes: int = 3,
    near_duplicate: float = 0.95,
    seed: int = 0,
) -> None:
    """Try each candidate in seeded lineups; keep the dangerous ones, set doubtful ones apart.

    Arguments:
        candidates: JSONL of bundles: anchor and positive.

    Options:
        pool: JSONL of texts that negatives are drawn from.
        out (mined): Folder for what was accepted and what was not.
        embeddings: Of the candidates: .npy or .safetensors, a row per text.
        pool_embeddings: The same of the pool.
        lineups: Lineups that each candidate meets.
        lineup_size: Negatives in a lineup.
        threshold: Least danger that passes; 0 by default.
        organic: Scores of organic items, from whose dangers the threshold is calibrated.
        quantile: With --organic: share of its dangers below the threshold; 0.9.
        min_passes: Least passes that are accepted.
        near_duplicate: Cosine from which two texts count as the same.
        seed: Of the lineups.
    """
    from gmb_hf.crucible.mining import QUANTILE, MiningSettings, mine_files

    if organic is not None and threshold is not None:
        raise InputError("--threshold and --organic exclude each other; give one of them")
    if organic is None and quantile is not None:
        raise InputError("--quantile is one of the dangers of --organic; give that, too")
    settings = MiningSettings(
        lineups, lineup_size, threshold or 0.0, min_passes, near_duplicate, seed
    )
    with screen.counting("encoding") as done:
        result, paths = mine_files(
            candidates,
            pool,
            out,
            settings=settings,
            embeddings=embeddings,
            pool_embeddings=pool_embeddings,
            encoder=encoder,
            organic=organic,
            quantile=QUANTILE if quantile is None else quantile,
            on_done=done,
        )
    summary = result.summary()
    screen.answered(**summary)
    if (known := result.calibration) is not None:
        screen.tell("mined_threshold", threshold=result.settings.threshold, known=known)
        screen.notes(known.notes)
    screen.tell("mined", style="bold", result=result)
    screen.say(
        f"accepted by strength: {_counts(summary['strengths'])}; "
        f"quarantined: {summary['quarantined']:,}"
    )
    scoring = _command("score", paths[0], encoder=encoder or "NAME", out="scores.parquet")
    screen.written(paths, following=scoring)


@app.command()
def from_runs(
    out: Path,
    preset: str = "quick",
    seeds: str = "0:4",
    changes: list[str] | None = None,
    every: int | None = None,
    bundles: int = 512,
    negatives: int = 16,
    bundle_seed: int = 0,
    model: Path | None = None,
    device: str = "auto",
    figures: bool = True,
) -> None:
    """Train seeds and ask each the same at every checkpoint: which equations have one answer?

    Options:
        out (runs/crucible): A folder.
        seeds: Of the runs, e.g. 0:4 or 3,7.
        every: Steps between checkpoints; the preset's by default.
        bundles: Bundles of each seed.
        negatives: Negatives in a bundle.
        bundle_seed: Of the drawing of the bundles.
        model: Ask this saved model instead of training; --seeds is its seed.
    """
    from gmb_hf.crucible import grokking
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.presets import preset as named

    spaced = [] if every is None else [f"training.checkpoint_every={every}"]
    config = named(preset).changed([*(changes or []), *spaced])
    wanted = parse_seeds(seeds)
    sampling = grokking.BundleSampling(bundles, negatives, bundle_seed)
    # Of a training with the same seeds and task, whose items are the same.
    comparing = _command("compare", out / "scoreboard.json", "OTHER/scoreboard.json")
    if model is None:
        found = grokking.from_runs(
            config, wanted, out, sampling=sampling, device=device, figures=figures
        )
        progress = grokking.margin_progress(found.log, found.events)
        screen.answered(margins=progress)
        screen.tell("margins_of_runs", style="bold", **vars(progress))
        if progress.share is not None:
            rise = f"of its rise since memorisation, {number(progress.share)} came before t*"
            screen.say(f"{rise} (median)")
        _print_board(found.scored.board)
        screen.notes(found.notes)
        screen.say_whole("compare", comparing)
        design = config.benchmark.design()
        judging = ("evaluate", "--runs", out / "logs", "--metric", "test_acc", "--score")
        lengths = ("--horizon", design.horizon, "--safe-gap", design.safe_gap)
        following = screen.command(*judging, "crucible_margin_q10", *lengths)
        screen.written(list(found.paths), following=following)
        return
    if len(wanted) != 1:
        raise InputError(
            f"--seeds {seeds}: a saved model is one run; give its one seed, e.g. --seeds 0"
        )
    scored = grokking.score_model(model, config, wanted[0], out, sampling=sampling)
    _print_board(scored.board)
    screen.written(list(scored.paths), following=comparing)


@app.command()
def score(
    bundles: Path,
    out: Path,
    embeddings: Path | None = None,
    encoder: str | None = None,
    name: str | None = None,
    skip_empty: bool = False,
    previous: Path | None = None,
) -> None:
    """Margin and rank of each item, by the similarities in the file or by embeddings.

    Arguments:
        bundles: JSONL: anchor, positive, negatives a line.

    Options:
        out (scores.parquet): Where to write the items' scores.
        embeddings: .npy or .safetensors with a row per text.
        name: What made the similarities; the encoder by default.
        skip_empty: Leave out items without negatives.
        previous: An earlier version of the set, every item of which must be here.
    """
    from gmb_hf.crucible.scores import score_bundles

    check_not_read(out, bundles, embeddings, previous)
    with screen.counting("encoding") as done:
        scores = score_bundles(
            bundles,
            embeddings=embeddings,
            encoder=encoder,
            name=name,
            empty="skip" if skip_empty else "error",
            previous=previous,
            on_done=done,
        )
    path = scores.write(out)
    margin, rank = scores.summaries()
    screen.answered(encoder=scores.origin.encoder, margin=margin, rank=rank)
    screen.tell("scored", style="bold", encoder=scores.origin.encoder, margin=margin, rank=rank)
    screen.tell("scored_margins", **vars(margin))
    screen.tell("scored_ranks", rank=rank)
    if margin.n_skipped:
        screen.notes([f"{margin.n_skipped:,} items without negatives were left out"])
    board = ("--scores", path, "--eval-version", "v1", "--out", "scoreboard.json")
    following = _command("scoreboard", *board)
    if scores.tiers is None:
        following = _command("tiers", "fit", scores=path, out="tiers.json")
    screen.written([path], following=following)


@tiers_app.command()
def fit(
    scores: Path,
    out: Path,
    thresholds: tuple[float, float] = (0.7, 0.9),
    method: str = "inverted_cdf",
    force: bool = False,
) -> None:
    """Freeze the cutoffs of a corpus, with the encoder and the corpus that they come from.

    Options:
        out (tiers.json): Where to freeze them.
        thresholds: Quantiles of the danger at the two cutoffs.
        method: inverted_cdf, or spec for the reference's algorithm.
        force: Replace tiers that are there.
    """
    from gmb_hf.crucible.scores import ItemScores, fit_to_scores

    if out.exists() and not force:
        raise InputError(
            f"{out}: tiers are frozen there already; other cutoffs would hold other items. Choose "
            "another file, or replace them with --force"
        )
    check_not_read(out, scores)
    table = ItemScores.read(scores)
    tiers = fit_to_scores(table, thresholds=thresholds, method=method)
    path = tiers.write(out)
    screen.tell("tiers", tiers=tiers, counts=_counts(tiers.counts))
    screen.notes(tiers.notes)
    files = {"tiers": path, "scores": scores, "bundles": table.origin.bundles}
    following = _command("tiers", "assign", **files, out="tiered.jsonl")
    screen.written([path], following=following)


@tiers_app.command()
def assign(tiers: Path, scores: Path, bundles: Path, out: Path) -> None:
    """Write the bundles with their tiers: the set that every later model is scored on.

    Options:
        tiers: Frozen cutoffs.
        bundles: The bundles that were scored.
        out (tiered.jsonl): Where to write bundles with their tiers.
    """
    from gmb_hf.crucible.margins import Tiers
    from gmb_hf.crucible.scores import ItemScores, assign_to_file

    check_not_read(out, tiers, scores)
    found = assign_to_file(Tiers.read(tiers), ItemScores.read(scores), bundles, out)
    screen.say(f"items: {_counts(found.counts)}.")
    if found.left_out:
        screen.notes([f"{found.left_out:,} items had no score and are not in the new file"])
    screen.written([found.path], following=_command("score", found.path, out="scores.parquet"))


@app.command()
def scoreboard(
    scores: Path, eval_version: str, out: Path, seed: int = 42, checkpoint: str | None = None
) -> None:
    """Sum up the items overall and by tier, under the fingerprint of their data.

    Options:
        eval_version: Version of the evaluation set, e.g. v23.
        out (scoreboard.json): Where to write it.
        seed: Seed of the evaluation.
        checkpoint: The model; what made the similarities by default.
    """
    from gmb_hf.crucible.scoreboard import scoreboard_of

    check_not_read(out, scores)
    made = scoreboard_of(scores, out, version=eval_version, seed=seed, checkpoint=checkpoint)
    _print_board(made)
    screen.written([out], following=_command("compare", out, "OTHER.json"))


@app.command()
def compare(
    previous: Path,
    following: Path,
    organic_before: Path | None = None,
    organic_after: Path | None = None,
    allow_fingerprint_mismatch: bool = False,
    gate: bool = False,
    permutations: int = 9999,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """What changed between two scoreboards of the same data, with guardrails and paired tests.

    Arguments:
        previous: The older scoreboard.
        following: The newer scoreboard.

    Options:
        allow_fingerprint_mismatch: Show numbers of different data all the same; they are not
            comparable.
        organic_before: Scoreboard of the organic holdout, before.
        organic_after: The same, after.
        gate: Exit with 1 from a CRITICAL guardrail on.
        permutations: Sign flips of a permutation test.
        seed: Of the sign flips.
    """
    from gmb_hf.crucible.compare import compare_files

    check_not_read(out, previous, following, organic_before, organic_after)
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
    paths = [] if out is None else [found.write(out)]
    screen.answered(**found.to_dict())
    tests = {test.group: test for test in found.paired_tests}
    columns = [Column("change in"), Column("n", thousands)]
    columns += [Column(name, "{:+.3f}".format) for name in ("pass", "q10", "margin", "rank")]
    columns += [Column("gained", thousands), Column("lost", thousands)]
    columns += [Column("p pass", p_value), Column("p margin", p_value)]
    fields = "n mcnemar.only_second mcnemar.only_first mcnemar_adjusted permutation_adjusted"
    rows = []
    for name, change in {"overall": found.overall, **found.by_tier}.items():
        n, *tested = (follow(tests.get(name), field) for field in fields.split())
        changes = [change[key] for key in ("pass_rate", "q10_margin", "mean_margin", "mean_rank")]
        rows.append((name, n, *changes, *tested))
    if not found.comparable:
        screen.say("NOT COMPARABLE: " + "; ".join(found.mismatches), style="bold red")
    screen.table(Table(columns, rows))
    _print_guardrails(found.guardrails)
    screen.notes(found.notes)
    if found.paired_tests:
        screen.tell("legend_of_tests", style="dim")
    if gate and not found.passes:
        screen.written(paths, following=None)
        raise CheckFailed(f"the gate is closed: {'; '.join(found.obstacles)}")
    screen.written(paths, following=_command("aggregate", following, "OTHER_SEED.json"))


# What the commands print.


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _print_guardrails(findings: Sequence[GuardrailFinding]) -> None:
    """Each finding with its level, the worst first."""
    styles = {"OK": "green", "WARNING": "yellow", "CRITICAL": "bold red", "SEVERE": "bold red"}
    columns = (
        Column("guardrail", take=lambda one: Text(one.level.name, styles[one.level.name])),
        Column("", take="message", shrinks_to=30, wraps=True),
    )
    screen.table(Table.of(sorted(findings, key=lambda finding: -finding.level), columns))


def _print_board(made: Scoreboard) -> None:
    """The scoreboard as a table, overall and by tier."""
    fields = {
        "n": ("n", thousands),
        "correct": ("correct", thousands),
        "pass": ("pass_rate", number),
        "margin": ("mean_margin", number),
        "q10": ("q10_margin", number),
        "median": ("median_margin", number),
        "q90": ("q90_margin", number),
        "rank": ("mean_rank", lambda value: number(value, 2)),
    }
    screen.answered(scoreboard=made)
    columns = [Column("items"), *(Column(head, show) for head, (_, show) in fields.items())]
    groups = {"overall": made.overall, **made.by_tier}
    rows = [
        (name, *(getattr(stats, field) for field, _ in fields.values()))
        for name, stats in groups.items()
    ]
    screen.say(made.eval_header.line)
    console = screen.console()
    for part in Table(columns, rows).rich(console.width):
        console.print(part)
    if not made.by_tier:
        screen.notes(["the items have no tiers; gmb crucible tiers assign gives them some"])
    console.print()
