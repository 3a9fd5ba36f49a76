"""Which column names the runs, and what is said of steps that a run has twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.columns import RUN_NAMES
from gmb_hf.runs.runlog import RunLog

N_RUNS, N_STEPS = 8, 12


def frame(**columns: Any) -> pd.DataFrame:
    """Eight runs, one after the other, named by these columns [runs]."""
    table = {name: np.repeat(np.asarray(values), N_STEPS) for name, values in columns.items()}
    values = np.random.default_rng(0).normal(size=N_RUNS * N_STEPS)
    return pd.DataFrame({**table, "step": np.tile(np.arange(N_STEPS) * 10, N_RUNS), "acc": values})


TEXT = [f"try {i}" for i in range(N_RUNS)]
WRITERS = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    "parquet": lambda table, path: table.to_parquet(path, index=False),
}


def written(table: pd.DataFrame, folder: Path, ending: str) -> Path:
    path = folder / f"all.{ending}"
    WRITERS[ending](table, path)
    return path


class TestKnownNames:
    @pytest.mark.parametrize("ending", WRITERS)
    @pytest.mark.parametrize("names", [TEXT, list(range(N_RUNS))], ids=["text", "numbers"])
    def test_a_known_name_is_taken_and_said(
        self, tmp_path: Path, ending: str, names: list[Any]
    ) -> None:
        for name in RUN_NAMES:
            path = written(frame(**{name: names}), tmp_path, ending)
            for columns in (None, ["acc"]):
                log = RunLog.read(path, columns=columns)
                assert log.runs == tuple(map(str, names)), name
                assert log.notes == (f"The runs are named by the column {name!r}.",)
                assert log.observables == ("acc",)

    def test_of_a_frame_too(self) -> None:
        log = RunLog.read(frame(run_name=TEXT), last_rows=3)
        assert (len(log.runs), log.table.num_rows) == (N_RUNS, 3 * N_RUNS)

    def test_a_column_named_run_needs_no_guess(self) -> None:
        log = RunLog.read(frame(run=TEXT, experiment=["one"] * 4 + ["two"] * 4))
        assert (len(log.runs), log.notes) == (N_RUNS, ())

    def test_a_name_that_all_rows_share_names_nothing(self, tmp_path: Path) -> None:
        path = written(frame(experiment=["one"] * N_RUNS).head(N_STEPS), tmp_path, "csv")
        assert (RunLog.read(path).runs, RunLog.read(path).notes) == (("all",), ())

    def test_two_that_agree_are_one(self) -> None:
        log = RunLog.read(frame(run_id=range(N_RUNS), run_name=TEXT))
        assert log.runs == tuple(TEXT)

    def test_two_that_differ_are_not_guessed_between(self) -> None:
        table = frame(experiment=["one"] * 4 + ["two"] * 4, run_id=range(N_RUNS))
        match = "'run_id' and 'experiment' may all name the runs; say which does, e.g. --run-column"
        with pytest.raises(InputError, match=f"{match} run_id"):
            RunLog.read(table)
        assert len(RunLog.read(table, run_column="run_id").runs) == N_RUNS


class TestHiddenRuns:
    @pytest.mark.parametrize("ending", WRITERS)
    @pytest.mark.parametrize("names", [TEXT, list(range(N_RUNS))], ids=["text", "numbers"])
    @pytest.mark.parametrize("order", [["name", "step"], ["step", "name"]])
    def test_another_column_that_tells_them_apart_is_named(
        self, tmp_path: Path, ending: str, names: list[Any], order: list[str]
    ) -> None:
        path = written(frame(name=names, lr=[0.1] * N_RUNS).sort_values(order), tmp_path, ending)
        message = (
            f"{path}: 84 of 96 rows repeat a step of their run, and the column 'name' tells them "
            "apart: --run-column name if it names runs; if a restart logged them again, keep the "
            "last row of each step and read that"
        )
        for columns in (None, ["acc"]):
            with pytest.raises(InputError) as raised:
                RunLog.read(path, columns=columns)
            assert str(raised.value) == message
        assert len(RunLog.read(path, run_column="name").runs) == N_RUNS

    def test_few_rows_are_enough(self) -> None:
        """A long run and the beginning of another one, of which a note would say: restarted."""
        table = frame(name=TEXT).query("name in ('try 0', 'try 1')").head(N_STEPS + 1)
        with pytest.raises(InputError, match="1 of 13 rows .* the column 'name' tells them apart"):
            RunLog.read(table)

    def test_beside_a_column_named_run(self) -> None:
        with pytest.raises(InputError, match="the column 'name' tells them apart"):
            RunLog.read(frame(run=["project"] * N_RUNS, name=TEXT))

    def test_two_columns_that_do_so_only_together(self) -> None:
        table = frame(arm=["a", "b"] * 4, seed=[0, 0, 1, 1, 2, 2, 3, 3])
        match = "only 'arm' and 'seed' together tell them apart: write both into one column"
        with pytest.raises(InputError, match=match):
            RunLog.read(table)

    def test_runs_logged_in_pieces(self) -> None:
        pieces = [
            {"name": name, "step": step, **piece}
            for name in TEXT
            for step in range(5)
            for piece in ({"loss": step + 0.5}, {"acc": step / 5})
        ]
        with pytest.raises(InputError, match="the column 'name' tells them apart"):
            RunLog.read(pd.DataFrame(pieces))


class TestRestarts:
    def restarted(self, back: int) -> pd.DataFrame:
        """40 steps, of which the last ones were logged again and ten were added."""
        steps = [*range(40), *range(40 - back, 50)]
        job = ["first"] * 40 + ["second"] * (10 + back)
        times = [f"10:{i // 60:02d}:{i % 60:02d}" for i in range(len(steps))]
        return pd.DataFrame({"step": steps, "acc": np.sqrt(steps), "job": job, "time": times})

    def test_a_job_and_a_time_name_no_runs(self) -> None:
        log = RunLog.read(self.restarted(5))
        assert log.restarts == "5 rows of restarted logs (9.1% of 55) were dropped: run (5)."
        part = log.complete(["acc"]).select(["run"])
        assert part.restarts == log.restarts

    def test_more_than_a_tenth_is_a_fault(self) -> None:
        message = (
            "DataFrame: 6 of 56 rows (11%) repeat a step of their run, more than the 10% that "
            "restarts may have logged again; if several runs go by one name, --run-column NAME "
            "names the column that tells them apart; if a restart logged them again, keep the "
            "last row of each step and read that"
        )
        with pytest.raises(InputError) as raised:
            RunLog.read(self.restarted(6))
        assert str(raised.value) == message
        log = RunLog.read(self.restarted(6), on_duplicate="keep")
        kept = log.to_pandas().drop_duplicates(["run", "step"], keep="last")
        assert RunLog.read(kept).table.num_rows == 50

    def test_the_share_is_that_of_all_runs(self, tmp_path: Path) -> None:
        for i in range(2):
            self.restarted(9 * i).to_csv(tmp_path / f"{i}.csv")
        assert RunLog.read(tmp_path).dropped_duplicates == {"1": 9}

    def test_two_runs_of_one_name(self) -> None:
        table = frame(run=TEXT)
        more = pd.concat([table, *[table.assign(run=table.run + f" {i}") for i in range(3)]])
        more.loc[more.run == "try 1", "run"] = "try 0"
        with pytest.raises(InputError, match="run 'try 0': 12 of its 12 steps are logged again"):
            RunLog.read(more)

    def test_what_we_wrote_ourselves_is_read(self, tmp_path: Path) -> None:
        log = RunLog.read(self.restarted(0))
        log.dropped_duplicates = {"run": 30}
        assert RunLog.read(log.write(tmp_path / "a.parquet")).dropped_duplicates == {"run": 30}

    def test_an_arrow_table(self) -> None:
        table = pa.Table.from_pandas(self.restarted(6), preserve_index=False)
        with pytest.raises(InputError, match="run log: 6 of 56 rows"):
            RunLog.from_table(table, run_name="a")
