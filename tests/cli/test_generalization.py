"""`gmb generalization`, as a user types it, on logs of any format."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import gmb, refused

from gmb_hf.protocol.sequential.generalisation import compare_logs, named_sources, write_generalised
from gmb_hf.runs.runlog import RunLog


def logs(
    folder: Path,
    *,
    offset: float = 0.2,
    seeds: Sequence[int] = (1337, 42, 7),
    high: float = 4.0,
    low: float = 0.5,
    names: tuple[str, str] = ("train_loss", "val_loss"),
) -> Path:
    """A CSV per seed, whose validation loss is the training loss plus an offset."""
    folder.mkdir()
    for seed in seeds:
        with (folder / f"seed_{seed}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "seed", *names])
            for step, train in enumerate(np.linspace(high, low, 20)):
                writer.writerow([step * 10, seed, train, train + offset + seed * 1e-6])
    return folder


def compared(out: Path, *sources: object, **options: object) -> dict[str, Any]:
    """The record and the tables of a comparison, without its figure."""
    found, curves = compare_logs(named_sources([str(source) for source in sources]), **options)
    write_generalised(found, curves, out, figures=False)
    return json.loads((out / "generalization.json").read_text())


def test_a_difference_at_equal_training_loss(tmp_path: Path) -> None:
    dense = logs(tmp_path / "dense")
    better = logs(tmp_path / "better", offset=0.1, low=1.0)
    out = tmp_path / "out"
    done = gmb(
        "generalization", f"better={better}", f"dense={dense}/*.csv", f"--out={out}", figures=True
    )
    assert done.code == 0, done
    data = json.loads((out / "generalization.json").read_text())
    assert (data["format"], data["baseline"]) == ("gmb-hf generalisation 1", "dense")
    (found,) = data["matched"]
    assert (found["variant"], found["reliable"]) == ("better", True)
    assert found["train_range"] == [1.0, 4.0]
    assert found["difference"]["seeds"] == [7, 42, 1337]
    assert found["difference"]["difference"]["mean"] == pytest.approx(-0.1)
    assert found["difference"]["difference"]["t_low"] is not None
    # By the end alone it looks worse: it was trained less far.
    ends = {name: one["final_validation_loss"]["mean"] for name, one in data["variants"].items()}
    assert ends["better"] > ends["dense"]
    for name in ("losses", "matched", "points"):
        for suffix in ("csv", "md", "tex"):
            assert (out / "tables" / f"generalization_{name}.{suffix}").is_file()
    assert (out / "figures" / "generalization.png").stat().st_size > 10_000
    assert "-0.100" in done.out


def test_one_variant_alone_has_losses_and_a_gap(tmp_path: Path) -> None:
    out = tmp_path / "out"
    data = compared(out, f"mine={logs(tmp_path / 'a')}")
    assert not (out / "tables" / "generalization_matched.csv").exists()
    assert data["variants"]["mine"]["final_gap"]["mean"] == pytest.approx(0.2, abs=1e-3)
    assert data["variants"]["mine"]["gap_std"] is not None


def test_what_is_unreliable_is_said(tmp_path: Path) -> None:
    dense = logs(tmp_path / "dense", low=2.0)
    below = logs(tmp_path / "below", high=1.5)
    done = gmb("generalization", f"dense={dense}", f"below={below}", f"--out={tmp_path}/out")
    assert done.code == 0, done
    said = " ".join(done.out.split())
    assert "UNRELIABLE: the training losses of below and dense do not overlap" in said
    row = (tmp_path / "out/tables/generalization_matched.md").read_text().splitlines()[2]
    assert row.startswith("| below | dense | no | 0.000 | – | – | – | – |")


def test_fewer_than_three_seeds_are_said(tmp_path: Path) -> None:
    data = compared(tmp_path / "o", f"a={logs(tmp_path / 'a', seeds=(42, 7))}")
    assert data["notes"] == [
        "a has 2 of at least 3 seeds (the protocol's: 1337, 42, 7): no interval"
    ]


def test_columns_are_known_by_their_usual_names_or_named(tmp_path: Path) -> None:
    usual = logs(tmp_path / "a", names=("loss", "eval_loss"))
    assert compared(tmp_path / "o", f"a={usual}")["variants"]["a"]["seeds"] == [7, 42, 1337]
    own = logs(tmp_path / "b", names=("t", "v"))
    assert "column 'train_loss' missing; found: t, v" in refused("generalization", f"a={own}")
    compared(tmp_path / "o", f"a={own}", train="t", validation="v")
    error = refused("generalization", f"a={own}", "--train=t", "--validation=w")
    assert "column 'w' missing; found: t, v" in error


def test_each_bad_input_is_one_line(tmp_path: Path) -> None:
    a = logs(tmp_path / "a")
    assert "name the variant of the logs, NAME=PATH" in refused("generalization", str(a))
    assert "NAME=PATH" in refused("generalization", "a=")
    assert "nothere" in refused("generalization", "a=nothere.csv")
    assert "'b' is unknown" in refused("generalization", f"a={a}", "--baseline=b")
    assert "points must be" in refused("generalization", f"a={a}", "--points=0")
    assert "points must be at most 10,000" in refused(
        "generalization", f"a={a}", "--points=1000000"
    )
    both = ("--train=train_loss", "--validation=train_loss")
    assert "train_loss is named for both losses" in refused("generalization", f"a={a}", *both)
    (a / "again.csv").write_text((a / "seed_7.csv").read_text())
    assert "have the same seed, 7" in refused("generalization", f"a={a}")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("200,7,inf,1.0", "step 200: the training loss is inf"),
        ("200,7,-1,1.0", "step 200: the training loss is -1.0"),
        ("200,7,nan,nan", "has neither train_loss nor val_loss at its last step, 200; did it"),
    ],
)
def test_a_run_that_diverged_is_refused(tmp_path: Path, row: str, message: str) -> None:
    a = logs(tmp_path / "a", seeds=(7,))
    with (a / "seed_7.csv").open("a") as file:
        file.write(f"{row}\n")
    assert message in refused("generalization", f"a={a}")


def test_losses_may_be_logged_at_different_steps(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,train_loss,val_loss\n0,4,5\n10,3,\n20,2,3\n30,,2.5\n")
    data = compared(tmp_path / "out", f"a={path}")
    assert data["variants"]["a"]["steps"] == [0, 20]


def trained_on(path: Path, fingerprint: str | None, test: str = "a" * 64, seed: int = 1) -> str:
    """A log that names its data."""
    steps, train = np.arange(3), np.array([[3.0, 2.0, 1.0]])
    texts = {"train_content_hash": fingerprint, "test_content_hash": test}
    metadata = {"config": {"texts": texts}} if fingerprint else {}
    columns = {"train_loss": train, "test_loss": train + 0.1}
    log = RunLog.from_arrays([path.stem], steps, columns, seeds=[seed], metadata=metadata)
    return str(log.write(path))


def test_losses_on_different_data_are_refused_or_marked(tmp_path: Path) -> None:
    one, other = "1" * 64, "2" * 64
    a, b = (
        trained_on(tmp_path / "a.parquet", one),
        trained_on(tmp_path / "b.parquet", other, seed=2),
    )
    error = refused("generalization", f"a={a}", f"b={b}", f"--out={tmp_path}/o")
    assert f"training text: fingerprint {other[:16]} of b, {one[:16]} of a; only equal" in error
    assert not (tmp_path / "o").exists()
    data = compared(tmp_path / "o", f"a={a}", f"b={b}", allow_fingerprint_mismatch=True)
    assert data["notes"][0].startswith("NOT COMPARABLE: training text: fingerprint 2222")
    for table in (tmp_path / "o" / "tables").glob("*.md"):
        assert "NOT COMPARABLE: training text" in table.read_text()
    # Within a variant, too; and a log that names no data is compared with any.
    assert "of a; only equal" in refused("generalization", f"a={a}", f"a={b}")
    c = trained_on(tmp_path / "c.parquet", one, "b" * 64)
    assert "held-out text: fingerprint bbbb" in refused("generalization", f"a={a}", f"c={c}")
    plain = trained_on(tmp_path / "plain.parquet", None)
    compared(tmp_path / "p", f"a={a}", f"b={plain}")
