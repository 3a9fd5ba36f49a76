"""An ensemble in a preregistration, from `gmb explore` to `gmb evaluate --lock`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import gmb, locking, refused

from gmb_hf import Results, RunLog
from gmb_hf.design.lock import Lock

BOTH: dict[str, Any] = {
    "name": "both",
    "family": "ensemble",
    "x_ensemble": {
        "members": ["embedding_gini_gain", {"name": "update_norm", "family": "dynamics"}]
    },
}
JUDGED = ("--lock=lock.yaml", "--runs=heldout.csv", "--out=results")


def with_candidate(candidate: dict[str, Any]) -> None:
    """Add it to the design as somebody with an editor would."""
    design = yaml.safe_load(Path("prereg.yaml").read_text(encoding="utf-8"))
    design["candidates"].append(candidate)
    design["operating_points"] = {"fpr_targets": [0.1], "min_targets_ok": 1}
    design["x_primary_fpr"] = 0.1
    # Few runs are left to calibrate an ensemble on.
    design |= {"x_run_budgets": [0.1, 0.2], "x_primary_run_budget": 0.1}
    Path("prereg.yaml").write_text(yaml.safe_dump(design), encoding="utf-8")


@pytest.fixture(autouse=True)
def _copy_of_the_chain(chain: Path, tmp_path: Path) -> None:
    shutil.copytree(chain, tmp_path, dirs_exist_ok=True)
    with_candidate(BOTH)


def test_it_is_explored_locked_explained_judged_and_watched():
    done = gmb("explore", "--runs=explore.csv", "--prereg=prereg.yaml", "--out=table.csv")
    assert done.code == 0, done
    assert "both: fitted anew for each fifth of the runs" in " ".join(done.out.split())
    done = gmb("lock", *locking(Path()), "--force", "--explain", "--out=lock.yaml")
    assert done.code == 0, done
    said = " ".join(done.out.split())
    assert "- both is the log-odds of a logistic regression" not in said  # that is a design's
    assert "asinh((embedding_gini_gain [window 100] " in said
    assert "fitted on 9 explore runs (seed_" in said
    done = gmb("evaluate", *JUDGED)
    assert done.code == 0, done
    found = Results.read("results/results.yaml").indicator("both")
    assert (found.family, found.label) == ("ensemble", "SUPPORTED_FOR_ALARM")
    assert gmb("results", "validate", "results/results.yaml").code == 0
    report = Path("results/report.md").read_text(encoding="utf-8")
    assert "both was fitted on 9 explore runs" in report
    run = RunLog.read("heldout.csv").select(["seed_100"])
    rows = run.table.drop_columns(["run"]).to_pylist()
    Path("run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    watched = ("--lock=lock.yaml", "--results=results/results.yaml", "--follow=run.jsonl")
    done = gmb("monitor", *watched, "--idle=0", "--act=both")
    assert done.code == 3, done
    assert "both reached " in done.out


def test_the_seal_covers_it():
    assert gmb("lock", *locking(Path()), "--force", "--out=lock.yaml").code == 0
    text = Path("lock.yaml").read_text(encoding="utf-8")
    intercept = repr(Lock.read("lock.yaml").candidate("both").ensemble.intercept)
    Path("lock.yaml").write_text(text.replace(intercept, "0.5"), encoding="utf-8")
    assert "was edited after it was locked" in refused("evaluate", *JUDGED)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["embedding_gini_gian", "update_norm"], "Did you mean 'embedding_gini_gain'?"),
        (["embedding_gini_gain"], "candidates[2].x_ensemble: members must be two scores at least"),
        (["both", "update_norm"], "is a member of itself"),
    ],
)
def test_bad_members(chain: Path, members: list[str], message: str):
    shutil.copy(chain / "prereg.yaml", ".")
    name = "both" if "both" in members else "all"
    with_candidate({**BOTH, "name": name, "x_ensemble": {"members": members}})
    assert message in refused("lock", *locking(Path()), "--force", "--out=lock.yaml")
