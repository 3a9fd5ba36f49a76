"""Anybody's results file beside the schema: every violation named, extensions left alone."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from results_layout import EMPTY, EXAMPLE

from gmb_hf.base.documents import dump_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.extensions import CheckedDocument, check
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.validation import check_results, disagreements
from gmb_hf.runs.runlog import RunLog

Change = Callable[[Any], object]


def first(plain: Any) -> Any:
    return plain["indicators"][0]


def checked(change: Change, tmp_path: Path, text: str = EXAMPLE) -> CheckedDocument:
    plain = yaml.safe_load(text)
    change(plain)
    path = tmp_path / "results.yaml"
    path.write_text(dump_yaml(plain))
    return check_results(path)


@pytest.mark.parametrize("text", [EXAMPLE, EMPTY], ids=["filled in", "to be filled in"])
def test_the_published_layout_matches(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(text)
    found = check_results(path)
    assert (found.faults, found.set_aside) == ((), ())
    assert found.content == Results.read(path)


def test_json_is_as_good_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(yaml.safe_load(EXAMPLE), indent="\t"))
    assert check_results(path).faults == ()
    assert Results.read(path).indicator("second").layer_C.at_fpr[0].coverage == 0.5


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (lambda p: p.pop("schema_version"), "schema_version is required; add it"),
        (lambda p: p.update(schema_version="v0.5"), "schema_version must be 'v0.4', got 'v0.5'"),
        (lambda p: p.update(event=None), "event must be a mapping of keys to values, got None"),
        (lambda p: p.pop("summary"), "summary is required; add it"),
        (lambda p: p["meta"].update(benchmark="GNB"), "meta.benchmark must be 'GMB', got 'GNB'"),
        (lambda p: p["meta"].pop("run_id"), "meta.run_id is required; add it"),
        (lambda p: p.update(indicator=[]), "indicator is unknown; did you mean indicators?"),
        (lambda p: p.update(indicators={}), "indicators must be a list, got {}"),
        (
            lambda p: p["event"].update(t_event_by_seed={100: 5, 101: 6}),
            "event.t_event_by_seed: the key 100 must be text (put it in quotes), got 100",
        ),
        (
            lambda p: p["boundary"].update(seeds_eval=[1.5]),
            "boundary.seeds_eval[0] must be a whole number or text (put it in quotes), got 1.5",
        ),
        (lambda p: first(p)["layer_A"].pop("ap"), "indicators[0].layer_A.ap is required; add it"),
        (
            lambda p: first(p)["layer_C"]["at_fpr"][1].update(abstain_rate=0.1),
            "indicators[0].layer_C.at_fpr[1].abstain_rate is unknown; known: fpr, coverage",
        ),
        (
            lambda p: first(p)["layer_B"]["achieved"][0].update(achieved="low"),
            "indicators[0].layer_B.achieved[0].achieved must be a number, got 'low'",
        ),
        (
            lambda p: first(p).update(label="GOOD"),
            "indicators[0].label must be 'SUPPORTED_FOR_ALARM', 'RANK_ONLY'",
        ),
        (
            lambda p: first(p).update(name="second"),
            "indicators: the name 'second' is used twice",
        ),
        (
            lambda p: first(p).update(x_alarm_eligible=True),
            "indicators[0].x_alarm_eligible is true, the label is RANK_ONLY",
        ),
        (
            lambda p: p.update(x_protocol="compat"),
            "indicators[1].label is SUPPORTED_FOR_ALARM, which x_protocol compat cannot support",
        ),
        # What the schema cannot say: numbers that contradict each other.
        (lambda p: p["summary"].update(n_events=3), "summary.n_events is 3, but event.t_event"),
        (
            lambda p: p["summary"].update(n_events=4, n_seeds=3),
            "summary.n_events is 4, of n_seeds 3",
        ),
        (
            lambda p: first(p)["layer_A"].update(auc=57),
            "indicators[0].layer_A.auc must be a share between 0 and 1, got 57",
        ),
        (
            lambda p: first(p)["layer_C"]["at_fpr"][0].update(coverage=-0.1),
            "indicators[0].layer_C.at_fpr[0].coverage must be a share between 0 and 1, got -0.1",
        ),
        (
            lambda p: first(p)["layer_B"].update(targets=[0.01, 0.05]),
            "indicators[0].layer_B.achieved[2].target 0.1 is not among layer_B.targets",
        ),
        (
            lambda p: p["indicators"][1]["layer_B"].update(controllability_pass=False),
            "indicators[1].label is SUPPORTED_FOR_ALARM, but layer_B.controllability_pass is false",
        ),
        (
            lambda p: p["indicators"][1]["layer_B"].update(fpr_floor_detected=True),
            "indicators[1].label is SUPPORTED_FOR_ALARM, but layer_B.fpr_floor_detected is true",
        ),
        (
            lambda p: first(p)["layer_B"].update(ok_targets=4),
            "indicators[0].layer_B.ok_targets is 4, of 3 targets",
        ),
    ],
)
def test_a_violation_is_named_with_its_path(change: Change, violation: str, tmp_path: Path) -> None:
    found = checked(change, tmp_path)
    assert any(line.startswith(violation) for line in found.faults), found.faults
    assert all("\n" not in line for line in found.faults)


def test_all_violations_are_named_at_once(tmp_path: Path) -> None:
    def spoil(plain: Any) -> None:
        plain["boundary"]["tsk"] = "t"
        plain["boundary"]["model_name"] = "m"
        first(plain)["layer_A"].update(auc="high", auk=0.5)
        del first(plain)["layer_D"]["pass_rate"]
        plain["indicators"][1]["label"] = "FINE"
        plain["tables"] = []

    found = checked(spoil, tmp_path)
    paths = [line.split(" ")[0] for line in found.faults]
    assert sorted(paths) == [
        "boundary.model_name",
        "boundary.tsk",
        "indicators[0].layer_A.auc",
        "indicators[0].layer_A.auk",
        "indicators[0].layer_D.pass_rate",
        "indicators[1].label",
        "tables",
    ]
    assert found.content is None


def test_extensions_of_others_need_not_mean_what_ours_do(tmp_path: Path) -> None:
    def extend(plain: Any) -> None:
        plain["x_provenance"] = {"made_by": "hand"}
        plain["x_theirs"] = [1]
        first(plain).update(x_reasons="many", x_sign="up")
        first(plain)["layer_C"]["at_fpr"][0]["x_coverage_interval"] = [0.1, 0.2]
        first(plain)["layer_A"]["x_auc_run_mean"] = 0.5

    found = checked(extend, tmp_path)
    assert found.faults == ()
    assert set(found.set_aside) == {
        "x_provenance",
        "indicators[0].x_reasons",
        "indicators[0].x_sign",
        "indicators[0].layer_C.at_fpr[0].x_coverage_interval",
    }
    read = Results.read(tmp_path / "results.yaml")
    assert read == found.content
    assert read.indicators[0].layer_A.x_auc_run_mean == 0.5
    assert read.plain()["x_theirs"] == [1]


def test_a_null_in_an_extension_of_others_is_set_aside(tmp_path: Path) -> None:
    def extend(plain: Any) -> None:
        plain["x_provenance"] = None
        plain["x_sources"] = None
        first(plain).update(x_reasons=None, x_strata=None)
        first(plain)["layer_C"]["at_fpr"][0]["x_lead_times"] = None

    found = checked(extend, tmp_path)
    assert found.faults == ()
    assert set(found.set_aside) == {
        "x_sources",
        "indicators[0].x_reasons",
        "indicators[0].x_strata",
        "indicators[0].layer_C.at_fpr[0].x_lead_times",
    }
    assert Results.read(tmp_path / "results.yaml").indicators[0].x_reasons == ()


def test_extensions_of_ours_must_be_right(tmp_path: Path) -> None:
    def ours(plain: Any) -> None:
        plain["x_provenance"] = {"package_version": "0.1.0", "python": "3.11"}
        first(plain)["x_reasons"] = "many"

    found = checked(ours, tmp_path)
    assert found.faults == ("indicators[0].x_reasons must be a list, got 'many'",)


GOLDEN = Path(__file__).parents[1] / "golden" / "inputs"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An evaluation by a lock, of which the first score may raise an alarm."""
    lock = shutil.copy(GOLDEN / "lock.yaml", tmp_path_factory.mktemp("lock"))
    found = evaluate_lock(lock, RunLog.read(GOLDEN / "heldout.parquet")).results
    few = found.model_copy(update={"indicators": found.indicators[:1]}).with_checksums().plain()
    return copy.deepcopy(few)


def at_budget(plain: Any, budget: float = 0.05) -> Any:
    points = first(plain)["x_first_alarm"]["at_budget"]
    return next(point for point in points if point["budget"] == budget)


def test_an_evaluation_by_runs_agrees_with_itself(locked: dict[str, Any], tmp_path: Path) -> None:
    assert first(locked)["x_alarm_eligible"] is True
    assert checked(lambda p: None, tmp_path, dump_yaml(locked)).faults == ()


ELIGIBLE = "x_alarm_eligible is true, but x_first_alarm: "


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (lambda p: at_budget(p).update(n_missed=99), "x_first_alarm.at_budget[0].n_events is"),
        (lambda p: at_budget(p).update(n_early=99), "x_first_alarm.at_budget[0].n_detected is"),
        (lambda p: at_budget(p).update(n_false=40), "x_first_alarm.at_budget[0].n_false is 40"),
        (lambda p: at_budget(p).update(n_runs=0), "x_first_alarm.at_budget[0].false_alarm_rate is"),
        (
            lambda p: at_budget(p).update(detection_rate=0.5),
            "x_first_alarm.at_budget[0].detection_rate is 0.5",
        ),
        (
            lambda p: at_budget(p, 0.1).update(detection_rate=0.5),
            "x_first_alarm.at_budget[1].detection_rate is",
        ),
        (
            lambda p: at_budget(p).update(timely_rate=None),
            "x_first_alarm.at_budget[0].timely_rate is None",
        ),
        (
            lambda p: at_budget(p)["detection_interval"].update(low=0.0, high=0.1),
            "x_first_alarm.at_budget[0].detection_rate is 1.0, outside its interval",
        ),
        (lambda p: at_budget(p).update(state="missed"), f"{ELIGIBLE}state does not meet x_prereg"),
        (
            lambda p: first(p)["x_first_alarm"]["at_budget"].pop(),
            "x_first_alarm.at_budget has [0.05, 0.1], x_prereg [0.05, 0.1, 0.2]",
        ),
        (
            lambda p: first(p).update(x_reasons=["runs_detection_low"]),
            "x_alarm_eligible is true, but x_reasons has runs_detection_low",
        ),
        (
            lambda p: first(p)["x_first_alarm"].update(p_adjusted=0.5),
            f"{ELIGIBLE}p_adjusted does not meet x_prereg",
        ),
        (
            lambda p: first(p)["x_first_alarm"].update(p_adjusted=None),
            f"{ELIGIBLE}p_adjusted does not meet x_prereg",
        ),
        (
            lambda p: at_budget(p)["false_alarm_interval"].update(low=0.2, high=0.4),
            f"{ELIGIBLE}false_alarm_interval does not meet x_prereg",
        ),
        (
            lambda p: first(p)["x_first_alarm"].update(basis="shown"),
            f"{ELIGIBLE}false_alarm_interval does not meet x_prereg",
        ),
        (lambda p: at_budget(p).update(answer="ABSTAIN"), f"{ELIGIBLE}threshold does not meet"),
        (lambda p: at_budget(p).update(lead_median=1.0), f"{ELIGIBLE}lead_median does not meet"),
        (
            lambda p: first(p)["x_first_alarm"]["robustness"].update(label_flip_rate=0.9),
            f"{ELIGIBLE}robustness.label_flip_rate does not meet x_prereg",
        ),
        (
            lambda p: first(p).update(label="RANK_ONLY", x_alarm_eligible=False),
            "label is RANK_ONLY, by its gates (x_gates) it is SUPPORTED_FOR_ALARM",
        ),
        (
            lambda p: first(p)["x_gates"][0].update(state="missed"),
            "label is SUPPORTED_FOR_ALARM, by its gates (x_gates) it is RANK_ONLY",
        ),
        (
            lambda p: first(p)["x_gates"][-1].update(state="straddles"),
            "label is SUPPORTED_FOR_ALARM, by its gates (x_gates) it is INCONCLUSIVE",
        ),
        (
            lambda p: first(p)["layer_B"].update(x_budget_state="straddles"),
            "layer_B.x_budget_state is straddles, by its rates and x_prereg it is met",
        ),
    ],
)
def test_a_verdict_by_runs_that_was_tampered_with(
    change: Change, violation: str, locked: dict[str, Any]
) -> None:
    plain = copy.deepcopy(locked)
    change(plain)
    found = Results.check(plain)
    faults = found.faults
    if not faults:
        faults = tuple(disagreements(Results.parse(found.content, where="results")))
    assert any(line.removeprefix("indicators[0].").startswith(violation) for line in faults), faults


@pytest.mark.parametrize("data", [[], "text", 3])
def test_what_is_no_mapping(data: Any) -> None:
    assert check(Results, data, ours=False).faults[0].startswith("the document must be a mapping")


def test_the_document_that_is_checked_is_not_changed() -> None:
    data = {"unknown": 1, "x_protocol": 3}
    check(Results, data, ours=False)
    assert data == {"unknown": 1, "x_protocol": 3}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", b"", "is empty"),
        ("a.yaml", b"a: [", "line"),
        ("a.yaml", b"a: \xe9", "is not UTF-8"),
        ("a.json", b"{", r"a\.json: is not JSON"),
        ("a.json", b'{"a": 1, "a": 2}', r"a\.json: key 'a' is given twice"),
        ("a.json", b"\xe9", "is not UTF-8"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_bad_input(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        check_results(tmp_path / name)
    with pytest.raises(InputError, match="there is no such file"):
        check_results(tmp_path / "gone.yaml")


def test_the_json_schema_asks_for_the_version_and_leaves_extensions_open() -> None:
    schema = Results.json_schema()
    assert "schema_version" in schema["required"]
    assert not any(name.startswith("x_") for name in schema["required"])
    for section in (schema, *schema["$defs"].values()):
        if "properties" in section:
            assert section["additionalProperties"] is False
            assert section["patternProperties"] == {"^x_": {}}
