"""Spoiled files of every kind: each command answers in one line, and by its exit code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import attacks
from gmb_hf.base.documents import parse_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import parse_json
from gmb_hf.benchmark.planning import plan_runs
from gmb_hf.cli import main
from gmb_hf.design.design import Design
from gmb_hf.monitor.follow import GrowingRows
from gmb_hf.protocol.answers.judges import Asking
from gmb_hf.runs.rows import LogLine
from gmb_hf.runs.runlog import RunLog

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Whole files of every kind, in the current folder."""
    folder = tmp_path_factory.mktemp("attacked")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        attacks.prepare(folder)
        yield folder


@pytest.mark.parametrize("kind", attacks.TARGETS)
def test_no_spoiled_file_ends_in_a_traceback(kind: str, workplace: Path) -> None:
    target = attacks.TARGETS[kind]
    whole = Path(target.file).read_bytes()

    @settings(max_examples=6)
    @given(st.integers(0, 10**6))
    def spoil(seed: int) -> None:
        content = attacks.spoiled(whole, random.Random(seed))
        assert attacks.fault(target, content)[1] is None

    spoil()


def test_an_error_that_quotes_a_whole_file_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "validate", "x" * 5_000]) == 2
    said = capsys.readouterr().err
    assert " [...] " in said
    assert len(said) < 1_600


YAML = {
    "flow": ("[" * 100_000, "p: line 1: is nested too deeply; 100 levels are the most"),
    "blocks": ("- " * 5_000 + "a", "p: line 1: is nested too deeply"),
    "aliases": (attacks.DOCUMENTS[4], "aliases repeat more than 10,000 values; write them out"),
    "merge keys": (attacks.DOCUMENTS[5], "aliases repeat more than 10,000 values"),
    "within itself": ("a: &a [*a]", r"p: line 1: \*a stands within itself"),
    "no integer": ("a:\n  b: !!int x", "p: line 2: 'x' is no integer of 64 bits"),
    "many digits": (f"a: {'9' * 5_000}", "p: line 1: '9+' is no integer of 64 bits"),
    "no float": ("a: !!float x", "p: a value is not of its type: could not convert"),
    "no date": ("a: !!timestamp x", "p: a value is not of its type"),
    "half a character": ("a: \udc80", "p: holds a character that is not Unicode"),
    "python": ("!!python/object/apply:os.system [x]", "could not determine a constructor"),
}


@pytest.mark.parametrize(("text", "message"), YAML.values(), ids=YAML)
def test_yaml_that_would_hang_or_crash_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_yaml(text, where="p")


def test_aliases_of_a_usual_size_are_read() -> None:
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]"
    found = {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}
    assert parse_yaml(text, where="p") == found


JSON = {
    "closed": ("[" * 101 + "]" * 101, "p: is nested too deeply; 100 levels are the most"),
    "open": ("[" * 100_000, "p: is nested too deeply"),
    "many digits": ("9" * 5_000, "p: the integer 999999999999... has 5000 digits"),
    "65 bits": (str(2**63), "p: the integer 9223372036854775808 does not fit 64 bits"),
    "half a character": (r'{"a": "\ud800"}', "p: holds half of a surrogate pair"),
}


@pytest.mark.parametrize(("text", "message"), JSON.values(), ids=JSON)
def test_json_that_would_hang_or_crash_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, where="p")


def test_what_other_programs_write_is_read() -> None:
    assert parse_json("[-Infinity, 100000000000000000000]", where="p", foreign=True)[1] == 10**20
    assert parse_json("[" * 100 + "]" * 100 + " ", where="p")
    assert parse_json(r'"\ud83d\ude00"', where="p") == "😀"


DEEP = '{"step": 1, "x": ' + "[" * 10_000 + "]" * 10_000 + "}"


def test_a_deep_line_of_a_log_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"step": 0, "x": 1}}\n{DEEP}\n')
    with pytest.raises(InputError, match=r"a\.jsonl: line 2: is nested too deeply"):
        RunLog.read(path)


def test_a_deep_line_of_a_growing_log_is_passed_over() -> None:
    rows = GrowingRows("a.jsonl", needs=["x"])
    rows.checkpoints([LogLine(1, '{"step": 0, "x": 1}', False), LogLine(2, DEEP, False)])
    assert "line 2: is nested too deeply" in rows.notes[0]


@pytest.mark.parametrize("template", ["{answer:>99999999999}", "{answer!r}", "{answer} {prompt:3}"])
def test_a_template_has_no_widths(template: str) -> None:
    with pytest.raises(InputError, match=r"--template: must have .answer. in it"):
        Asking(how="yes-no", template=template)


@pytest.mark.parametrize("rate", [1e-320, 1e-7, 1 - 1e-9])
def test_no_plan_for_rates_beyond_reach(rate: float) -> None:
    design = Design.of(
        {
            "horizon": 1,
            "safe_gap": 2,
            "fpr_targets": [rate],
            "primary_fpr": rate,
            "min_targets_ok": 1,
        }
    )
    with pytest.raises(InputError, match=f"--f {rate!r}: rates from 0.000001 to 0.999999 are"):
        plan_runs(design)
