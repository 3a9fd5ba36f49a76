"""`gmb crucible mine`: candidates that are hard in many lineups, not in one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


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
    from gmb_hf.cli import show
    from gmb_hf.crucible.mining import Settings
    from gmb_hf.reporting.escape import number
    from gmb_hf.workflows.crucible_mining import mine_files

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
