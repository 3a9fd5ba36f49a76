"""A monitor's state: saved and restored with the run, exact, and in one monitor's hands."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from launched import exit_code, speaking_to, started
from live_runs import DESIGN, GAIN, NORM, Evaluated

from gmb_hf import make_lock
from gmb_hf.base.errors import InputError
from gmb_hf.monitor.monitor import AlarmMonitor, claim_state


@pytest.fixture
def halfway(evaluated: Evaluated) -> AlarmMonitor:
    """A monitor that has seen 40 checkpoints, one of them with a NaN in a window."""
    monitor = evaluated.monitor(NORM, show=None)
    for row in islice(evaluated.rows(), 40):
        spoilt = {"embedding_norm": float("nan")} if row["step"] == 380 else {}
        monitor.update(**{**row, **spoilt})
    return monitor


@pytest.mark.parametrize("through_file", [True, False])
def test_a_restored_monitor_goes_on_as_if_nothing_had_been(
    evaluated: Evaluated, halfway: AlarmMonitor, tmp_path: Path, through_file: bool
) -> None:
    restored = evaluated.monitor(NORM, show=None)
    if through_file:
        restored.load(halfway.save(tmp_path / "monitor.json"))
    else:
        restored.load_state_dict(json.loads(json.dumps(halfway.state_dict(), allow_nan=False)))
    assert restored.state_dict() == halfway.state_dict()
    for row in islice(evaluated.rows(), 40, None):
        # NaN is not equal to itself.
        assert str(restored.update(**row)) == str(halfway.update(**row))
    assert restored.state_dict() == halfway.state_dict()


def test_the_state_does_not_grow_with_the_run(evaluated: Evaluated) -> None:
    monitor = evaluated.monitor(show=None)
    sizes = []
    for row in evaluated.rows():
        monitor.update(**row)
        sizes.append(len(json.dumps(monitor.state_dict())))
    assert max(sizes) < 1.2 * sizes[40]


def test_after_a_restart_the_loaded_state_takes_the_steps_again(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    rows = list(evaluated.rows())
    monitor = evaluated.monitor(NORM)
    for row in rows[:40]:
        monitor.update(**row)
    monitor.save(tmp_path / "monitor.json")
    for row in rows[40:50]:
        monitor.update(**row)
    with pytest.raises(InputError, match="the run went back"):
        monitor.update(**rows[40])
    monitor.load(tmp_path / "monitor.json")
    whole = evaluated.monitor(NORM)
    for row in rows[:40]:
        whole.update(**row)
    assert [monitor.update(**row) for row in rows[40:]] == [
        whole.update(**row) for row in rows[40:]
    ]


def claim(path: Path, said: Path) -> None:
    """Claim a state file in another process, and print the refusal."""
    speaking_to(said, said)
    try:
        claim_state(path)
    except InputError as error:
        print(error, flush=True)


class TestOneMonitorAFile:
    def test_a_second_monitor_is_refused(self, evaluated: Evaluated, tmp_path: Path) -> None:
        path = tmp_path / "new" / "monitor.json"
        first, second = evaluated.monitor(GAIN), evaluated.monitor(GAIN)
        first.save(path)
        kept = path.read_bytes()
        message = rf"^{path}: another monitor saves its state here; give each run a file of its own"
        with pytest.raises(InputError, match=message):
            second.save(path)
        assert path.read_bytes() == kept
        first.save(path)
        second.load(path)

    def test_one_in_another_process_is_refused_until_the_first_ends(
        self, evaluated: Evaluated, tmp_path: Path
    ) -> None:
        path = tmp_path / "monitor.json"
        said = tmp_path / "said"

        def other() -> str:
            said.unlink(missing_ok=True)
            assert exit_code(started(claim, path, said)) == 0
            return said.read_text(encoding="utf-8")

        with closing(evaluated.monitor(GAIN)) as monitor:
            monitor.save(path)
            assert other().startswith(f"{path}: another monitor saves its state here")
        assert other() == ""

    def test_a_closed_monitor_leaves_the_file_and_another_file_frees_the_first(
        self, evaluated: Evaluated, tmp_path: Path
    ) -> None:
        a, b = tmp_path / "a.json", tmp_path / "b.json"
        first, second = evaluated.monitor(GAIN), evaluated.monitor(GAIN)
        first.save(a)
        first.save(b)  # and so lets a go
        second.save(a)
        assert a.read_bytes() == b.read_bytes()
        with pytest.raises(InputError, match="another monitor saves its state here"):
            second.save(b)
        first.close()
        assert b.is_file()
        second.save(b)
        with pytest.raises(InputError, match="another monitor saves its state here"):
            first.save(b)
        first.save(a)  # which the second has let go

    def test_a_place_that_cannot_be_written_to(self, evaluated: Evaluated, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match="could not be written"):
            evaluated.monitor(GAIN).save(tmp_path / "file" / "monitor.json")


class TestRefused:
    def test_of_another_lock(self, evaluated: Evaluated, halfway: AlarmMonitor) -> None:
        other, _ = make_lock(DESIGN.replace(burn_in=160), evaluated.explore)
        state = {**halfway.state_dict(), "lock_hash": other.hash}
        with pytest.raises(InputError, match=rf"^state: is of lock {other.hash[:16]}, not of"):
            evaluated.monitor(NORM, show=None).load_state_dict(state)

    def test_of_other_indicators(self, evaluated: Evaluated, halfway: AlarmMonitor) -> None:
        for monitor in (evaluated.monitor(GAIN, show=None), evaluated.monitor(NORM)):
            before = monitor.state_dict()
            with pytest.raises(InputError, match="is of a monitor with other indicators"):
                monitor.load_state_dict(halfway.state_dict())
            assert monitor.state_dict() == before

    def test_of_another_format(self, evaluated: Evaluated, halfway: AlarmMonitor) -> None:
        state = {**halfway.state_dict(), "format": 7}
        with pytest.raises(InputError, match=r"^state: state format 7 is not readable here"):
            evaluated.monitor(NORM, show=None).load_state_dict(state)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "is not the state of a monitor"),
            ('{"format": 1, "lock', "is not the state of a monitor"),
            ("[1, 2]", "monitor.json: "),
            ('{"format": 1}', "its checksum differs: it was damaged or changed"),
        ],
    )
    def test_what_is_no_state(
        self, evaluated: Evaluated, tmp_path: Path, content: str, message: str
    ) -> None:
        path = tmp_path / "monitor.json"
        path.write_text(content)
        with pytest.raises(InputError, match=message) as caught:
            evaluated.monitor(NORM).load(path)
        assert "\n" not in str(caught.value)

    def test_a_file_that_is_not_there(self, evaluated: Evaluated, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no such file"):
            evaluated.monitor(NORM).load(tmp_path / "monitor.json")

    @pytest.mark.parametrize(("key", "value"), [("alarms", "two"), ("kept", [["x"]]), ("extra", 1)])
    def test_a_field_that_is_wrong(
        self, evaluated: Evaluated, halfway: AlarmMonitor, key: str, value: Any
    ) -> None:
        state = halfway.state_dict()
        state["indicators"][NORM][key] = value
        with pytest.raises(InputError, match=key):
            evaluated.monitor(NORM, show=None).load_state_dict(state)
