"""`gmb` called in this process, and the arguments that several files of tests share."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.cli import main

SMOKE = (
    "run",
    "--preset=smoke",
    "--set=training.steps=300",
    "--set=seeds.explore=0:22",
    "--set=seeds.evaluate=1000:1006",
    "--set=training.compile=never",
    "--set=benchmark.run_groups=3",
    "--set=benchmark.smoothing_sweep=1,3",
)
"""`gmb run`, as small as it passes its own linter."""

COLUMNS = ("run", "step", "test_acc", "train_acc", "embedding_gini", "test_loss", "update_norm")
"""What the CSV files hold."""

FEW_DRAWS = (
    "--null-draws=200",
    "--bootstrap-draws=100",
    "--smoothing-sweep=1,3",
    "--run-groups=2",
)
"""What makes an evaluation by options fast, where its last digits are not the thing tested."""

DESIGN = (
    "--horizon=100",
    "--safe-gap=200",
    "--jump=0.2",
    "--burn-in=150",
    *FEW_DRAWS,
    "--lead-target=30",
    "--lead-min=20",
)
"""How `gmb evaluate` without a lock judges them."""


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def next_command(self) -> str:
        """The last line, which says what to type next."""
        last = self.out.rstrip().splitlines()[-1]
        assert last.startswith("next    "), last
        return last.removeprefix("next    ")


_DRAWS = (
    ("run",),
    ("evaluate",),
    ("heldout",),
    ("generalization",),
    ("sequential", "run"),
    ("sequential", "report"),
    ("crucible", "pareto"),
    ("crucible", "from-runs"),
)


def gmb(*arguments: object, figures: bool = False) -> Outcome:
    """Run `gmb` with these arguments; without figures, which take most of the time."""
    words = [str(argument) for argument in arguments]
    if not figures and (tuple(words[:1]) in _DRAWS or tuple(words[:2]) in _DRAWS):
        words.append("--no-figures")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return Outcome(code, out.getvalue(), err.getvalue())


def refused(*arguments: object, code: int = 2) -> str:
    """Run a command that must fail, and return its one line on standard error."""
    done = gmb(*arguments)
    assert done.code == code, done
    lines = done.err.strip().splitlines()
    assert len(lines) == 1, f"not one clear line: {done.err!r}"
    assert lines[0].isprintable()
    return lines[0]


def locking(chain: Path) -> tuple[str, ...]:
    """The options that lock the chain's explore runs by its preregistration."""
    return ("--prereg", str(chain / "prereg.yaml"), "--runs", str(chain / "explore.csv"))
