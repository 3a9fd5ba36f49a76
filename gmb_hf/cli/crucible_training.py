"""`gmb crucible exposure|pareto|aggregate`: before a training, over configurations, over seeds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gmb_hf.crucible.exposure import Pool
    from gmb_hf.workflows.crucible_aggregating import Aggregated


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
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.crucible_levels import levels
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.crucible.exposure import expected_exposures
    from gmb_hf.crucible.guardrails import Level, check_pools, worst
    from gmb_hf.jsonfile import write_json
    from gmb_hf.reporting.escape import number, one_line
    from gmb_hf.validation import CheckFailed

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
    columns = (Column("pool", shrinks_to=12), *(Column(head, right=True) for head in heads))
    rows = [
        [
            Text(one_line(cell))
            for cell in (
                item.name,
                f"{item.size:,}",
                number(item.ratio),
                f"{item.draws:,.0f}",
                number(item.expected, 1),
                "–" if item.low is None else f"{item.low:,} to {item.high:,}",
                item.status or "empty",
            )
        ]
        for item in found
    ]
    screen = show.console()
    for part in lay_out(columns, [Group(rows)], screen.width):
        screen.print(part)
    screen.print()
    for line in levels(findings, screen.width):
        screen.print(line)
    screen.print()
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
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.escape import number, one_line
    from gmb_hf.reporting.figures import pareto_plot, save_figure
    from gmb_hf.workflows.crucible_frontier import find_frontier

    found = find_frontier(results, draws=draws, seed=seed)
    stem = out.with_suffix("") if out.suffix in (".json", ".png", ".svg") else out
    figure = pareto_plot(found.names, found.frozen, found.organic, found.on_frontier)
    paths = [found.write(stem.with_name(f"{stem.name}.json")), *save_figure(figure, stem)]
    columns = (
        Column("configuration", shrinks_to=16),
        Column("frozen tier3", right=True),
        Column("organic", right=True),
        Column("most surely beaten by", shrinks_to=20),
    )
    rows: dict[bool, list[list[Text]]] = {True: [], False: []}
    for row in found.rows():
        cells = (row.name, number(row.frozen), number(row.organic), _beaten(row.beaten_by))
        rows[row.on_frontier].append([Text(one_line(cell)) for cell in cells])
    groups = [
        Group(body, heading=heading)
        for body, heading in ((rows[True], "on the frontier"), (rows[False], "dominated"))
        if body
    ]
    screen = show.console()
    for part in lay_out(columns, groups, screen.width):
        screen.print(part)
    screen.print()
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
    from gmb_hf.cli import show
    from gmb_hf.workflows.crucible_aggregating import aggregate_files

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
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.escape import number

    heads = ("metric", "mean", "std", "min", "max", "95% interval")
    columns = (Column("items"), *(Column(head, right=head != "metric") for head in heads))
    groups = []
    sides = [("", found.groups), ("against: ", found.against or {})]
    for prefix, side in sides:
        for name, metrics in side.items():
            rows = []
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
                rows.append([Text(cell) for cell in ("", *cells)])
            groups.append(Group(rows, heading=f"{prefix}{name}"))
    screen = show.console()
    for part in lay_out(columns, groups, screen.width):
        screen.print(part)
    screen.print()
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
    from gmb_hf.validation import InputError

    name, _, rest = text.partition("=")
    size, _, ratio = rest.partition(":")
    try:
        return Pool(name, int(size), float(ratio))
    except ValueError:
        raise InputError(
            f"--pool {text!r}: must be NAME=SIZE:RATIO, such as legacy=454:0.75"
        ) from None
