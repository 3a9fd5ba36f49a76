"""Reading run logs: formats, folders and globs, and every way in which a file can be wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.runs.readers import find_files
from gmb_hf.runs.runlog import RunLog

GOOD = "step,loss,acc\n0,3.5,0.1\n10,2.5,0.2\n20,1.5,0.9\n"


def csv_file(folder: Path, text: str | bytes, name: str = "seed_3.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_csv_without_runs_is_one_run_named_by_its_stem(tmp_path: Path) -> None:
    log = RunLog.read(csv_file(tmp_path, GOOD))
    assert log.runs == ("seed_3",)
    assert log.seeds == (3,)
    assert log.observables == ("loss", "acc")
    np.testing.assert_array_equal(log.panel("acc").values, [[0.1, 0.2, 0.9]])


def test_a_folder_a_glob_and_a_list_mean_the_same(tmp_path: Path) -> None:
    for i in (10, 9):
        csv_file(tmp_path, GOOD, f"seed_{i}.csv")
    csv_file(tmp_path, "not a log", ".hidden.csv")
    csv_file(tmp_path, "# a card", "README.md")
    given = [tmp_path, str(tmp_path / "*.csv"), [tmp_path / "seed_9.csv", tmp_path / "seed_10.csv"]]
    logs = [RunLog.read(source) for source in given]
    assert [log.runs for log in logs] == [("seed_9", "seed_10")] * 3
    assert len({log.fingerprint() for log in logs}) == 1


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = csv_file(tmp_path, GOOD)
    assert find_files([path, str(tmp_path), str(tmp_path / "*.csv")]) == [path]


def test_a_whole_number_that_float64_cannot_hold_is_infinite(tmp_path: Path) -> None:
    text = f'{{"step": 0, "x": {10**400}}}\n{{"step": 1, "x": -{10**400}}}\n'
    log = RunLog.read(csv_file(tmp_path, text, "a.jsonl"))
    np.testing.assert_array_equal(log.panel("x").values, [[np.inf, -np.inf]])


def test_formats_mix(tmp_path: Path) -> None:
    csv_file(tmp_path, GOOD, "a.csv")
    RunLog.from_arrays(["b"], [0, 10], {"loss": [[1, 2]]}).write(tmp_path / "b.parquet")
    csv_file(tmp_path, '{"step": 0, "loss": 1}\n{"step": 10, "loss": NaN}\n', "c.jsonl")
    log = RunLog.read(tmp_path)
    assert log.runs == ("a", "b", "c")
    np.testing.assert_array_equal(log.panel("loss").lengths, [3, 2, 2])


@pytest.mark.parametrize(
    "text",
    [
        "step,x\n0,1\n1,\n2,nan\n3,-inf\n",
        "\ufeffstep, x\r\n0, 1\r\n\r\n1, \r\n2,NaN\r\n3,-Infinity\r\n",
        'step,x\n"0","1"\n"1",""\n2.0,nan\n3,-inf',
        "step,x\n0,+1.0\n1,NA\n2, NAN\n3.0,-INF\n",
    ],
)
def test_the_many_ways_to_write_a_number(tmp_path: Path, text: str) -> None:
    panel = RunLog.read(csv_file(tmp_path, text)).panel("x")
    np.testing.assert_array_equal(panel.values, [[1, np.nan, np.nan, -np.inf]])
    np.testing.assert_array_equal(panel.steps, [[0, 1, 2, 3]])


def test_columns_of_text_do_not_stand_in_the_way(tmp_path: Path) -> None:
    text = "host,step,x,at\ngpu-1,0,1.5,2026-01-01\n" + '"gpu, 2",1,2.5,2026-01-02\n'
    log = RunLog.read(csv_file(tmp_path, text))
    assert log.observables == ("x",)
    with pytest.raises(InputError, match=r"seed_3\.csv: line 2: column 'at' holds '2026-01-01'"):
        log.panel("at")


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "step,x,y,z\n0,1,oops,3\n1,2,3,4\n2,2,3,4\n")
    assert RunLog.read(path, columns=["z"]).observables == ("z",)
    with pytest.raises(InputError, match="line 2: column 'y' holds 'oops'"):
        RunLog.read(path)
    with pytest.raises(
        InputError, match=r"column 'zz' missing; found: step, x, y, z. Did you mean"
    ):
        RunLog.read(path, columns=["zz"])


def test_other_names_for_step_and_run(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "name,epoch,step,x\nb,0,7,1\na,0,7,2\nb,1,7,3\n")
    log = RunLog.read(path, step_column="epoch", run_column="name")
    assert log.runs == ("a", "b")
    np.testing.assert_array_equal(log.panel("step").values, [[0, np.nan], [0, 1]])
    with pytest.raises(InputError, match=r"column 'epochs' missing.*Did you mean 'epoch'"):
        RunLog.read(path, step_column="epochs")
    with pytest.raises(InputError, match=r"column 'names' missing.*Did you mean 'name'"):
        RunLog.read(path, run_column="names")


def test_a_bad_cell_deep_in_a_big_file_is_found(tmp_path: Path) -> None:
    lines = ["step,x,y", *(f"{i},{i / 7},{i}" for i in range(60_000))]  # two blocks of Arrow's
    lines[50_000] = "49999,0.5,1.2.3"
    path = csv_file(tmp_path, "\n".join(lines))
    with pytest.raises(InputError, match=r"seed_3\.csv: line 50001: column 'y' holds '1\.2\.3'"):
        RunLog.read(path)
    lines[50_000] = "49999,0.5"
    csv_file(tmp_path, "\n".join(lines))
    with pytest.raises(InputError, match="line 50001 has 2 cells where the header has 3"):
        RunLog.read(path)


def test_whole_numbers_first_and_fractions_later(tmp_path: Path) -> None:
    rows = 130_000  # two blocks of Arrow's
    text = "step,x\n" + "".join(f"{i},{1 if i < rows - 1 else 0.5}\n" for i in range(rows))
    assert RunLog.read(csv_file(tmp_path, text)).panel("x").values[0, -1] == 0.5
    rows = 60_000
    items = ({"step": i, "x": 1 if i < rows - 1 else 0.5} for i in range(rows))
    path = csv_file(tmp_path, "\n".join(map(json.dumps, items)), "a.jsonl")
    assert RunLog.read(path).panel("x").values[0, -1] == 0.5


def test_jsonl_with_holes_text_and_lists(tmp_path: Path) -> None:
    items = [
        {"step": 0, "x": 1, "host": "a", "all": [1, 2]},
        {"step": 1, "x": None, "host": "b", "all": [3]},
        {"step": 2, "x": "nan", "late": 5},
        {"step": 3, "x": 4.5},
        {"step": 4, "x": True},
    ]
    path = csv_file(tmp_path, "\n\n".join(map(json.dumps, items)) + "\n", "a.jsonl")
    log = RunLog.read(path)
    assert log.observables == ("x", "late")
    np.testing.assert_array_equal(log.panel("x").values, [[1, np.nan, np.nan, 4.5, 1]])
    with pytest.raises(InputError, match="column 'all' holds"):
        log.panel("all")


def test_bad_parquet_files(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": [0, 1], "x": [1, 2]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a\.parquet: not a Parquet file"):
        RunLog.read(path)
    pq.write_table(pa.table({"step": pa.array([], pa.int64())}), path)
    with pytest.raises(InputError, match=r"a\.parquet: no rows"):
        RunLog.read(path)
    pq.write_table(pa.table({"step": [0, 1, 2], "x": ["1", "2", "two"]}), path)
    with pytest.raises(InputError, match=r"a\.parquet: row 3: column 'x' holds 'two'"):
        RunLog.read(path)
    table = pa.table({"step": [0]}).replace_schema_metadata({b"gmb": b"not json"})
    pq.write_table(table, path)
    with pytest.raises(InputError, match=r"a\.parquet: its metadata: is not JSON"):
        RunLog.read(path)


def test_nothing_to_read(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "logs", GOOD)
    for source, match in {
        tmp_path / "logs" / "seed_4.csv": r"seed_4\.csv: no such file.*Did you mean .*seed_3\.csv",
        tmp_path / "lost" / "seed_3.csv": "the folder .*lost does not exist either",
        tmp_path / "logs" / "*.parquet": r"\*\.parquet: no run log .* matches this pattern",
        tmp_path: "no run log .* in this folder; it has the folders logs",
        csv_file(tmp_path, GOOD, "notes.txt"): r"notes\.txt: not a run log; known endings: \.parq",
        tmp_path / "*.txt": r"matches .*notes\.txt, which is no run log",
    }.items():
        with pytest.raises(InputError, match=match):
            RunLog.read(source)
    with pytest.raises(InputError, match="no run logs given"):
        RunLog.read([])
    for source, kind in ((None, "NoneType"), (np.zeros((2, 3)), "ndarray"), ([1, 2], "int")):
        with pytest.raises(InputError, match=f"globs or a DataFrame, not {kind}$"):
            RunLog.read(source)  # type: ignore[arg-type]
    assert RunLog.read(str(tmp_path / "**" / "*.csv")).runs == (path.stem,)


def test_one_run_in_two_files_names_both(tmp_path: Path) -> None:
    csv_file(tmp_path, GOOD, "a/seed_1.csv")
    csv_file(tmp_path, GOOD, "b/seed_1.csv")
    with pytest.raises(InputError, match=r"'seed_1' is in two files, .*a/seed_1.csv and .*b/seed"):
        RunLog.read([tmp_path / "a", tmp_path / "b"])


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv_file(tmp_path, GOOD)

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pyarrow.csv, "read_csv", refuse)
    with pytest.raises(InputError, match=r"seed_3\.csv: could not be read: Permission denied"):
        RunLog.read(path)


def test_a_column_that_is_text_in_one_file_is_no_observable(tmp_path: Path) -> None:
    csv_file(tmp_path, "step,x\n0,1\n", "a.csv")
    csv_file(tmp_path, "step,x\n0,high\n", "b.csv")
    log = RunLog.read(tmp_path)
    assert log.observables == ()
    with pytest.raises(InputError, match=r"b\.csv: line 2: column 'x' holds 'high'"):
        log.panel("x")


def test_shards_of_one_training_merge(tmp_path: Path) -> None:
    whole = synthetic_runlog(6, 20, seed=1)
    for i in range(3):
        part = whole.select(whole.runs[i::3])
        part.metadata["process"] = i
        part.write(tmp_path / f"shard-{i}.parquet")
    log = RunLog.read(tmp_path)
    assert log.fingerprint() == whole.fingerprint()
    assert log.metadata == {**whole.metadata, "differs": {"process": [0, 1, 2]}}


def test_the_reference_runs(reference_runs: Path) -> None:
    log = RunLog.read(reference_runs / "*.csv")
    assert log.seeds == tuple(range(140, 160))
    assert log.dropped_duplicates == {"seed_140": 63}
    panel = log.panel("acc_test")
    assert panel.values.shape == (20, 601)
    assert panel.present.all()
    assert panel.cadence() == 500
    assert np.isfinite(log.panel("score").values).all()
    kept = RunLog.read(reference_runs / "seed_140.csv", on_duplicate="keep")
    assert kept.table.num_rows == 664
    assert kept.dropped_duplicates == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda log: "\ufeff" + log,
        lambda log: log.replace("\n", "\r\n"),
        lambda log: log.replace("\n", "\r\n", 2),
        lambda log: log.replace("\n", "\n\n"),
        lambda log: "".join(
            f"{'' if i == 0 else i},{line}\n" for i, line in enumerate(log.splitlines())
        ),
    ],
    ids=["BOM", "CRLF", "mixed endings", "blank lines", "an index without a name"],
)
def test_ways_of_other_programs_are_no_fault(tmp_path: Path, change: Callable[[str], str]) -> None:
    plain = RunLog.read(csv_file(tmp_path, GOOD))
    other = RunLog.read(csv_file(tmp_path, change(GOOD)))
    assert plain.table.equals(other.table)


def test_two_trainings_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in "pq":
        state = '{"log_history": [{"step": 10, "x": 1.0}]}'
        csv_file(tmp_path, state, f"{folder}/run/trainer_state.json")
    with pytest.raises(InputError, match="run 'run' is in two files") as raised:
        RunLog.read(str(tmp_path / "[pq]" / "run"))
    assert raised.value.code == "run_in_two_files"
    assert raised.value.location["run"] == "run"


def test_files_of_one_name_are_runs_named_by_their_folders(tmp_path: Path) -> None:
    for name in ("x", "y", "z"):
        path = tmp_path / "sweep" / name / "logs" / "metrics.csv.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(GOOD.encode()))
    with pytest.raises(InputError, match=r"for the logs in them give --runs .*/\*\.csv\.gz'"):
        RunLog.read(tmp_path / "sweep")
    assert RunLog.read(str(tmp_path / "**" / "*.csv.gz")).runs == ("x", "y", "z")
