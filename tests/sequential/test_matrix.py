"""The matrix file: what is written is read, and each fault is said in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retention_matrices import matrix

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.sequential.matrix import RetentionMatrix, read_matrix, write_matrix


@given(data=st.data())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tasks = data.draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
    phases = data.draw(st.integers(1, len(tasks)))
    seeds = sorted(data.draw(st.sets(st.integers(0, 99), min_size=1, max_size=3)))
    shape = (len(seeds), phases + 1, len(tasks))
    numbers = st.floats(-1e300, 1e300, allow_nan=False)
    loss, accuracy = (
        np.array(data.draw(st.lists(kind, min_size=n, max_size=n))).reshape(shape)
        for n in (int(np.prod(shape)),)
        for kind in (numbers, st.floats(0, 1))
    )
    names = data.draw(st.lists(st.sampled_from(["dense", "sort-4", "a,b", 'q"']), unique=True))
    written = {
        name: RetentionMatrix(
            name, tuple(seeds), tuple(tasks), tuple(tasks[:phases]), loss, accuracy
        )
        for name in names or ["dense"]
    }
    path = write_matrix(tmp_path_factory.mktemp("matrix") / "matrix.csv", written)
    read = read_matrix(path)
    assert list(read) == list(written)
    for name, one in read.items():
        assert (one.seeds, one.trained_on) == (tuple(seeds), tuple(tasks[:phases]))
        assert one.tasks == tuple(tasks)
        assert (one.loss == loss).all()
        assert (one.accuracy == accuracy).all()
        assert one.variant == name


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    path = write_matrix(tmp_path / "matrix.csv", {"dense": matrix(seeds=[3, 1])})
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(rows), ""]))
    read = read_matrix(path)["dense"]
    assert read.seeds == (1, 3)
    assert read.tasks == ("add", "sub", "mul", "sq_sum")
    assert (read.loss[::-1] == matrix(seeds=[3, 1]).loss).all()


def edited(edit: Callable[[list[str]], list[str]], path: Path) -> Path:
    write_matrix(path, {"dense": matrix(seeds=[0], tasks=("a", "b"))})
    path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n")
    return path


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda rows: [*rows, rows[3]],
            r"line 8: variant 'dense', seed 0, phase 1, task 'a' .* 4;",
        ),
        (lambda rows: rows[:-1], r"seed 0 has no row for phase 2, task 'b'"),
        (lambda rows: [rows[0], *rows[3:]], r"no row for phase 0, task 'a'.*untrained"),
        (lambda rows: rows[:1], "no rows below the header"),
        (lambda rows: [rows[0].replace("loss", "lossy"), *rows[1:]], "column 'lossy' is unknown"),
        (lambda rows: [row.rsplit(",", 1)[0] for row in rows], "column 'accuracy' missing"),
        (lambda rows: [f"{rows[0]},loss", *rows[1:]], "column 'loss' stands twice"),
        (lambda rows: [*rows[:-1], f"{rows[-1]},1"], "line 7 has 8 cells where the header has 7"),
        (lambda rows: [*rows[:-1], "dense,0,2,b,b,nan,1.0"], "line 7: loss is 'nan'"),
        (lambda rows: [*rows[:-1], "dense,0,2,b,b,high,1.0"], "line 7: loss is 'high'"),
        (
            lambda rows: [*rows[:-1], "dense,0,2,b,b,1.0,1.5"],
            r"accuracy of seed 0, phase 2.*\[0, 1\]",
        ),
        (lambda rows: [*rows[:-1], "dense,-1,2,b,b,1.0,1.0"], "seed must be a whole number"),
        (lambda rows: [*rows[:-1], "dense,0,2,b,,1.0,1.0"], "task is empty"),
        (lambda rows: [*rows[:-1], "dense,0,2,,b,1.0,1.0"], "phase 2 is trained on 'nothing'"),
        (lambda rows: [*rows[:-1], "dense,0,2,a,b,1.0,1.0"], "on 'a' here and on 'b' above"),
        (
            lambda rows: [*rows, *(r.replace("dense", "s").replace("b", "c") for r in rows[1:])],
            "variant 'dense' has the tasks a, b, but 's' a, c",
        ),
    ],
)
def test_each_fault_is_one_line(
    tmp_path: Path, edit: Callable[[list[str]], list[str]], message: str
) -> None:
    path = edited(edit, tmp_path / "matrix.csv")
    with pytest.raises(InputError, match=message) as caught:
        read_matrix(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "matrix.csv"))):
        read_matrix(tmp_path / "matrix.csv")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (0, 0, 1, 2, 3)}, "seed 0 is given twice"),
        ({"tasks": ("add", "add", "mul", "sq_sum")}, "task 'add' is given twice"),
        ({"trained_on": ("add", "sub", "mul", "div")}, "trained task 'div' is unknown"),
        ({"trained_on": ()}, "no trained task"),
        ({"seeds": (0, 1)}, r"loss has the shape \(5, 5, 4\)"),
    ],
)
def test_names_and_shapes_must_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(matrix(), **changes)  # type: ignore[arg-type]
