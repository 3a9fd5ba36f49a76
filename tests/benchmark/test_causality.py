"""Scores of other packages: those that look ahead, by whatever cunning, and those that fail."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import replace

import numpy as np
import pytest
from synthetic import synthetic_runlog

from benchmarks.cheats import CHEATS, outcome
from gmb_hf import InputError
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.prepare import Entry, Prepared, prepare
from gmb_hf.design.design import Design
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Observables, Values, register
from gmb_hf.runs.runlog import RunLog

RUNS = 12


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch):
    catalogue.names()
    monkeypatch.setattr(catalogue, "_REGISTRY", dict(catalogue._REGISTRY))


@pytest.fixture(scope="module")
def log() -> RunLog:
    return synthetic_runlog(RUNS)


def prepared(log: RunLog, name: str, **fields) -> Prepared:
    candidate = {"name": name, "family": "dynamics"}
    design = Design.minimal(
        metric="test_acc", horizon=100, safe_gap=200, candidates=[candidate], **fields
    )
    return prepare(log, design)


def judged(log: RunLog, function, needs=("weight_norm",), **declared):
    """The score of a registered function, as a judgement asks for it."""
    about = {"family": "dynamics", "summary": "a test", "source": "a test", **declared}
    register("tried", needs=needs, **about)(function)
    found = prepared(log, "tried")
    return found.panel(found.entries[0])


def ahead(x: Values) -> Values:
    """The next value of each run."""
    return np.concatenate([x[:, 1:], x[:, -1:]], axis=1)


def honest(seen: Observables) -> Values:
    return np.cumsum(seen["weight_norm"], axis=1)


def test_an_honest_score_passes(log: RunLog):
    values = judged(log, honest).values
    np.testing.assert_allclose(
        values, np.cumsum(log.panel("weight_norm").values, axis=1), rtol=1e-8
    )


def test_a_score_of_this_package_starts_no_process(log: RunLog, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    found = prepared(log, "weight_norm")
    assert found.panel(found.entries[0]).values.shape[0] == RUNS


@pytest.mark.parametrize("name", CHEATS)
def test_cheats(log: RunLog, name: str):
    cheat = CHEATS[name]
    expected = "told" if cheat.told else "harmless" if cheat.harmless else "refused"
    assert outcome(cheat, log) == expected


def test_the_message_names_run_and_step(log: RunLog):
    with pytest.raises(InputError, match=r"indicator 'tried' is not causal: run 'seed_\d+', step"):
        judged(log, CHEATS["by sorting the run"].function)


def test_values_that_are_almost_equal_are_judged_as_one(log: RunLog):
    """Those of a score whose numbers are as different as they look stay as they are."""
    values = judged(log, lambda seen: 1 + 1e-13 * seen["weight_norm"]).values
    assert len(np.unique(values)) <= 2
    rounded = judged_again(log, lambda seen: np.round(seen["weight_norm"], 2))
    np.testing.assert_array_equal(rounded, np.round(log.panel("weight_norm").values, 2))


def judged_again(log: RunLog, function) -> Values:
    del catalogue._REGISTRY["tried"]
    return judged(log, function).values


def test_an_ensemble_is_made_of_the_numbers_that_were_tried(log: RunLog):
    """A member that cheats at every other call."""
    register("honest", needs=("weight_norm",), family="dynamics", summary="", source="")(honest)
    calls = []

    def alternates(seen: Observables) -> Values:
        calls.append(1)
        return honest(seen) * (1 if len(calls) % 2 else -1)

    member = Entry(replace(catalogue.get("honest"), function=alternates))
    catalogue._REGISTRY["honest"] = member.indicator
    known = {member.trial.key: np.ones(log.panel("step").values.shape)}
    np.testing.assert_array_equal(member.panel(log, known).values, 1.0)
    assert not calls


MODULE = """
import numpy as np

known = {}

def score(seen):
    x = seen["weight_norm"]
    for row in x:
        if len(row) > len(known.get(row[0], ())):
            known[row[0]] = row.copy()
    width = np.arange(x.shape[1]) + 1
    return np.array([known[row[0]][width.clip(max=len(known[row[0]]) - 1)] for row in x])
"""


def test_what_a_module_remembers_of_an_earlier_judgement(log: RunLog, tmp_path, monkeypatch):
    (tmp_path / "remembers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("remembers").score
    function(Observables(lambda name: log.panel(name).values, 10))
    with pytest.raises(InputError, match="is not causal"):
        judged(log, function)


def test_a_column_that_was_not_declared(log: RunLog):
    with pytest.raises(InputError) as error:
        judged(log, lambda seen: seen["test_acc"])
    assert str(error.value) == (
        "indicator 'tried': reads column 'test_acc', which is not among its needs (weight_norm); "
        "add it there, so that all can see what the score is made of"
    )


def through_the_frames(seen: Observables) -> Values:
    """Finds the log among the callers' variables, which only the judging process has."""
    import inspect

    frame = inspect.currentframe()
    while frame is not None:
        held = frame.f_locals.get("log")
        if held is not None and hasattr(held, "panel"):
            return held.panel("test_acc").values
        frame = frame.f_back
    return seen["weight_norm"]


def test_a_column_that_is_taken_from_the_caller(log: RunLog):
    with pytest.raises(InputError, match="is not causal"):
        judged(log, through_the_frames)


@pytest.mark.parametrize(
    ("needs", "said", "kind"),
    [
        (("test_acc",), "label-free", "label-using"),
        (("weight_norm", "test_loss"), "task-aware", "label-using"),
        (("eval/loss",), "label-free", "label-using"),
        (("val_accuracy",), "label-free", "label-using"),
        (("embedding_gini",), "label-free", "task-aware"),
        (("weight_norm",), "task-aware", "task-aware"),
        (("weight_norm",), "label-free", "label-free"),
        (("test_hidden_rank",), "label-free", "label-free"),
    ],
)
def test_the_class_follows_from_the_columns(needs, said, kind):
    about = {"family": "dynamics", "summary": "", "source": ""}
    register("tried", needs=needs, kind=said, **about)(honest)
    entry = catalogue.get("tried")
    assert (entry.kind, entry.sees_test_labels) == (kind, kind == "label-using")


def test_the_metric_of_the_event_is_a_label(log: RunLog):
    table = log.table.rename_columns(
        ["solved" if name == "test_acc" else name for name in log.table.column_names]
    )
    about = {"family": "dynamics", "summary": "", "source": ""}
    register("tried", needs=("solved",), **about)(lambda seen: seen["solved"])
    candidate = {"name": "tried", "family": "dynamics"}
    design = Design.minimal(metric="solved", horizon=100, safe_gap=200, candidates=[candidate])
    entry = prepare(RunLog.from_table(table), design).entries[0]
    assert entry.declared.sees_test_labels is True


# What fails is named in one line.


def raises(seen: Observables) -> Values:
    raise KeyError("weights")


def leaves(seen: Observables) -> Values:
    raise SystemExit(0)


def kills(seen: Observables) -> Values:
    import os

    os._exit(3)


def scribbles(seen: Observables) -> Values:
    import os

    for number in range(3, 10):
        with contextlib.suppress(OSError):
            os.write(number, b"I5e1garbage\n" * 9)
    return seen["weight_norm"]


def one_dimension(seen: Observables) -> Values:
    return seen["weight_norm"][0]


def no_numbers(seen: Observables) -> Values:
    return np.array([["a"]])


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (raises, r"indicator 'tried': the function of \w+ failed: KeyError: 'weights'; repair it"),
        (leaves, r"indicator 'tried': the function of \w+ failed: SystemExit: 0; repair it"),
        (kills, r"indicator 'tried': ended the process in which its causality is tried \(exit "),
        (scribbles, r"indicator 'tried': wrote into the answers of the process in which its "),
        (one_dimension, r"indicator 'tried': returned values of shape \[\d+\] for columns of "),
        (no_numbers, r"indicator 'tried': the function of \w+ failed: TypeError: Cannot cast"),
    ],
)
def test_a_function_that_fails(log: RunLog, function, line: str):
    with pytest.raises(InputError, match=line):
        judged(log, function)


def test_a_function_that_ends_its_process_does_not_end_the_lock(log: RunLog):
    register("tried", needs=("weight_norm",), family="dynamics", summary="a", source="b")(kills)
    candidate = {"name": "tried", "family": "dynamics"}
    undeclared = ["task", "model", "optimizer", "schedule", "seeds_explore", "seeds_eval"]
    design = Design.minimal(
        metric="test_acc", horizon=100, safe_gap=200, candidates=[candidate], undeclared=undeclared
    )
    with pytest.raises(InputError, match="'tried': ended the process in which its causality is "):
        make_lock(design, log)


def test_a_function_that_cannot_be_sent(log: RunLog, tmp_path):
    with (
        (tmp_path / "open").open("w") as file,
        pytest.raises(InputError, match=r"cannot be tried in a fresh process \(.*\); register"),
    ):
        judged(log, lambda seen: (file.name, seen["weight_norm"])[1])
