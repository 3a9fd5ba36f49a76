"""Bundle files of made-up models, for the tests of `gmb crucible`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from command_line import Outcome, gmb


def lines(
    n: int = 120, *, gain: float = 0.0, seed: int = 1, tiers: list[str] | None = None
) -> list[dict[str, object]]:
    """The same items each time, seen by a model of this gain and this noise."""
    items, noise = np.random.default_rng(0), np.random.default_rng(seed)
    made: list[dict[str, object]] = []
    for number in range(n):
        count = int(items.integers(2, 8))
        base = float(items.normal(0.3, 0.3))
        rest = items.normal(0, 0.2, count)
        line: dict[str, object] = {
            "id": f"q{number}",
            "anchor": f"question {number}",
            "positive": f"answer {number}",
            "negatives": [f"wrong {number}.{place}" for place in range(count)],
            "similarities": {
                "positive": base + gain + float(noise.normal(0, 0.05)),
                "negatives": rest.tolist(),
            },
        }
        if tiers is not None:
            line["tier"] = tiers[number]
        made.append(line)
    return made


def write(path: Path, made: list[dict[str, object]]) -> Path:
    """JSONL."""
    path.write_text("".join(json.dumps(line) + "\n" for line in made))
    return path


def board(folder: Path, name: str, *, version: str = "v1", **how: object) -> Path:
    """A model's scoreboard, made by the commands: NAME.json beside NAME.parquet."""
    bundles = write(folder / f"{name}.jsonl", lines(**how))  # type: ignore[arg-type]
    scores = folder / f"{name}.parquet"
    done(gmb("crucible", "score", bundles, "--name", name, "--out", scores))
    out = folder / f"{name}.json"
    done(gmb("crucible", "scoreboard", "--scores", scores, "--eval-version", version, "--out", out))
    return out


def done(outcome: Outcome) -> Outcome:
    """The outcome of a command that must succeed."""
    assert outcome.code == 0, outcome
    return outcome
