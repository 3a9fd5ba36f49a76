"""Event files as SummaryWriter writes them, whole and cut."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")

Scalar = tuple[str, int, float]


def write(folder: Path, scalars: Iterable[Scalar], *, new_style: bool = False) -> Path:
    """One event file; the folder may have others already."""
    from torch.utils.tensorboard import SummaryWriter

    before = set(folder.glob("*")) if folder.exists() else set()
    with SummaryWriter(str(folder), filename_suffix=f".{len(before)}") as writer:
        writer.add_text("notes", "text is no scalar")
        writer.add_histogram("weights", np.arange(5.0), 0)
        for tag, step, value in scalars:
            writer.add_scalar(tag, value, step, new_style=new_style)
    return next(iter(set(folder.glob("*")) - before))


def losses(first: int, last: int, shift: float = 0.0) -> list[Scalar]:
    return [("train/loss", step, step / 8 + shift) for step in range(first, last + 1, 10)]


ACCURACY = [("eval/acc", step, step / 128) for step in range(0, 101, 50)]


@pytest.mark.parametrize("new_style", [False, True])
def test_a_folder_is_a_run_and_its_tags_are_columns(tmp_path: Path, new_style: bool) -> None:
    # One tag after the other: the steps of the file go back to 0.
    write(tmp_path / "seed_4", losses(0, 100) + ACCURACY, new_style=new_style)
    log = RunLog.read(tmp_path / "seed_4")
    assert (log.runs, log.seeds) == (("seed_4",), (4,))
    assert log.observables == ("eval/acc", "train/loss")
    np.testing.assert_array_equal(log.panel("train/loss").values, [np.arange(0, 101, 10) / 8])
    accuracy = log.panel("eval/acc").values[0]
    np.testing.assert_array_equal(accuracy[::5], [0, 50 / 128, 100 / 128])
    assert np.isnan(np.delete(accuracy, [0, 5, 10])).all()
    assert log.dropped_duplicates == {}


def test_folders_globs_and_files_mean_the_same_runs(tmp_path: Path) -> None:
    for seed in (9, 10):
        write(tmp_path / f"seed_{seed}", losses(0, 30, seed))
    files = sorted(tmp_path.glob("*/*"))
    given = [tmp_path, str(tmp_path / "*"), str(tmp_path / "*" / "*.tfevents.*"), files]
    logs = [RunLog.read(source) for source in given]
    assert [log.runs for log in logs] == [("seed_9", "seed_10")] * len(given)
    assert len({log.fingerprint() for log in logs}) == 1


def test_a_restart_replaces_what_it_logs_again_and_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "a", losses(0, 150))
    write(tmp_path / "a", losses(140, 280, 0.5))
    log = RunLog.read(tmp_path / "a")
    expected = np.arange(0, 281, 10) / 8 + np.where(np.arange(0, 281, 10) >= 140, 0.5, 0)
    np.testing.assert_array_equal(log.panel("train/loss").values, [expected])
    assert log.dropped_duplicates == {"a": 2}
    write(tmp_path / "a", losses(0, 280))
    with pytest.raises(InputError, match=r"a: 17 of 46 rows \(37%\) repeat a step of their run"):
        RunLog.read(tmp_path / "a")


def test_where_a_trainer_puts_its_events_the_run_is_its_output_folder(tmp_path: Path) -> None:
    write(tmp_path / "seed_1" / "runs" / "Nov21_03-11-44_host", losses(0, 50))
    write(tmp_path / "seed_1" / "runs" / "Nov22_10-00-00_host", losses(60, 80))
    for source in (tmp_path, tmp_path / "seed_1", tmp_path / "*" / "runs" / "*"):
        log = RunLog.read(source)
        assert log.runs == ("seed_1",)
        assert log.panel("step").last_step.tolist() == [80]


def test_values_that_are_no_numbers_are_values(tmp_path: Path) -> None:
    write(tmp_path / "a", [("x", 0, float("nan")), ("x", 1, float("inf")), ("y", 0, 1.0)])
    log = RunLog.read(tmp_path / "a")
    np.testing.assert_array_equal(log.panel("x").values, [[np.nan, np.inf]])
    assert log.table["x"].null_count == 0
    assert log.table["y"].null_count == 1


def record_ends(content: bytes) -> list[int]:
    ends, start = [], 0
    while start < len(content):
        (size,) = struct.unpack("<Q", content[start : start + 8])
        start += 8 + 4 + size + 4
        ends.append(start)
    return ends


def test_of_a_file_that_was_cut_the_whole_records_are_read_and_it_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a", losses(0, 30))
    whole = path.read_bytes()
    ends = record_ends(whole)
    # The version, a text, a histogram, and four losses.
    assert len(ends) == 7
    for records, start in enumerate(ends[:-1], start=1):
        for end in (start, start + 1, start + 11, start + 12, start + 17):
            path.write_bytes(whole[:end])
            if records < 4:
                with pytest.raises(InputError, match="the event files hold no scalars"):
                    RunLog.read(path)
                continue
            log = RunLog.read(path)
            assert log.panel("step").values.tolist() == [[0, 10, 20][: records - 3]]
            # Between two records nothing shows that more was to come.
            note = f"cut short in record {records + 1}, as by a crash; the {records} whole ones are"
            assert [note in one for one in log.notes] == [True] * (end > start)
    path.write_bytes(whole[: ends[4]] + bytes(40))  # what a file system lost may be zeros
    assert "cut short in record 6" in RunLog.read(path).notes[0]
    path.write_bytes(whole[:9])
    with pytest.raises(InputError, match="cut short in record 1, or no event file; copy it again"):
        RunLog.read(path)


def test_a_restart_goes_on_after_a_file_that_was_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "a", losses(0, 30))
    path.write_bytes(path.read_bytes()[:-3])
    write(tmp_path / "a", losses(30, 50))
    log = RunLog.read(tmp_path / "a")
    assert log.panel("step").values.tolist() == [[0, 10, 20, 30, 40, 50]]
    assert [str(path) in note for note in log.notes] == [True]


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a", losses(0, 30))
    whole = path.read_bytes()
    for at in range(0, len(whole), 29):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"record \d is damaged .*copy it again") as raised:
            RunLog.read(path)
        assert raised.value.code == "damaged"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "the file is empty"),
        (
            b"step,x\n0,1\n1,2\n2,3\n",
            r"record 1 is damaged \(its checksum is wrong\), or this is no",
        ),
        (b"\x03" + bytes(11) + b"\xff\xff\xff" + bytes(4), "record 1 is damaged"),
    ],
)
def test_files_that_hold_no_events(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "a" / "events.out.tfevents.1.host.0"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InputError, match=match):
        RunLog.read(path)


def test_no_scalars_negative_steps_and_a_tag_named_step(tmp_path: Path) -> None:
    write(tmp_path / "none", [])
    with pytest.raises(InputError, match="none: the event files hold no scalars: no rows"):
        RunLog.read(tmp_path / "none")
    write(tmp_path / "negative", [("x", -1, 1.0)])
    with pytest.raises(InputError, match="negative: step -1 is negative"):
        RunLog.read(tmp_path / "negative")
    write(tmp_path / "named", [("step", 0, 1.0)])
    with pytest.raises(InputError, match="the tag 'step' has the name of the steps"):
        RunLog.read(tmp_path / "named")


def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", losses(0, 30))
    for name in [name for name in sys.modules if name.startswith("tensorboard.compat.proto")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'gmb-hf\[tensorboard\]'"):
        RunLog.read(tmp_path / "a")


def test_two_logs_of_one_training_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "runs" / "Nov21_03-11-44_host", losses(0, 30))
    (tmp_path / "a" / "trainer_state.json").write_text('{"log_history": [{"step": 1, "x": 1}]}')
    assert RunLog.read(tmp_path).observables == ("x",)  # the state comes first
    match = "may be two logs of one run; name the files of one format"
    with pytest.raises(InputError, match=match):
        RunLog.read(tmp_path / "**")
    (path.parent / "metrics.csv").write_text("step,x\n0,1\n")
    with pytest.raises(InputError, match=match):
        RunLog.read(path.parent)
    assert RunLog.read(path.parent / "*.csv").runs == ("metrics",)
