"""results.yaml: the reference's layout, ours with its reasons, the schema, and what is refused."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gmb_hf.base.documents import parse_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.sections import CalibrationRecord
from gmb_hf.benchmark.validation import definition_of_done
from gmb_hf.benchmark.verdict import Declared, judge_all
from gmb_hf.design.design import Design
from gmb_hf.runs.runlog import RunLog

# The layout of a v0.4 results file as other people write it, with no extension at all.
FOREIGN = """\
schema_version: "v0.4"
meta:
  benchmark: "GMB"
  run_id: "EXAMPLE_v0.4"
  date: "2026-01-27"
  commit_hash: "<git commit>"
  prereg_path: "prereg.yaml"
boundary:
  task: "modular addition"
  model: "2-layer transformer"
  seeds_eval: [100, 101, "140-179"]
event:
  type: "E_jump"
  t_event_by_seed:
    "100": 120000
    "101": null
summary:
  n_seeds: 2
  n_events: 1
  notes: "Illustrative only."
indicators:
  - name: "rank_only"
    family: "dynamics"
    layer_A:
      auc: 0.56
      ap: 0.08
    layer_B:
      targets: [0.01, 0.05]
      achieved:
        - {target: 0.01, achieved: 0.44}
        - {target: 0.05, achieved: null}
      ok_targets: 0
      fpr_min: 0.44
      controllability_pass: false
      fpr_floor_detected: true
    layer_C:
      at_fpr:
        - fpr: 0.05
          coverage: 1.0
          lead_time_median: 18000
          lead_time_iqr: 2000
          lead_time_success: 1.0
    layer_D:
      family_size: 10
      pass_rate: 0.0
      label_flip_rate: 0.1
      sensitivity_notes: "Ranking signal exists."
    label: "RANK_ONLY"
    diagnostics:
      effective_support_size: 1.6
      tie_dominance: 0.85
      comments: "High AUC does not imply alarm usability."
tables:
  gate_summary_path: "results/tables/gate_summary.csv"
  utility_at_fpr_path: "results/tables/utility_at_fpr.csv"
  robustness_path: "results/tables/robustness.csv"
"""


def design(**overrides: Any) -> Design:
    settings = {"horizon": 200, "safe_gap": 400, "burn_in": 100, "task": "toy task", "cadence": 50}
    return Design.minimal(**{**settings, "null_draws": 99, "bootstrap_draws": 99, **overrides})


def judged(design: Design, n_runs: int = 40, with_events: bool = True) -> Results:
    """Three scores of made-up runs through all layers and into a results file."""
    rng = np.random.default_rng(1)
    steps = np.tile(np.arange(41) * 50, (n_runs, 1))
    event = np.full(n_runs, np.nan)
    if with_events:
        event[:-4] = np.round(rng.uniform(700, 1900, n_runs - 4) / 50) * 50
        event[0] = 100.0  # too early to be detected
    noise = rng.normal(0, 0.2, steps.shape)
    rise = 1 / (1 + np.exp(-(steps - np.nan_to_num(event, nan=9000)[:, None] + 150) / 40))
    values = {"rise": 3 * rise + noise, "two": (noise > 0) * 1.0, "flat": 0 * noise}

    def score(name: str, series: NDArray[np.float64]) -> Scores:
        present = np.ones(steps.shape, dtype=bool)
        runs = tuple(f"seed_{i}" for i in range(n_runs))
        return Scores(name, runs, series, steps, present, event)

    scores = {name: score(name, series) for name, series in values.items()}
    judgements = {name: Judgement(each, each, design) for name, each in scores.items()}
    declared = {"flat": Declared("flat", family="control")}
    records = judge_all(judgements, controls=("flat",), declared=declared)
    return Results.assemble(
        list(records.values()),
        RunLog.from_arrays(scores["rise"].runs, steps[0], values),
        event.tolist(),
        design=design,
        calibration=CalibrationRecord(method="explore", n_runs=n_runs),
        date="2026-01-27",
        notes=["3 rows were dropped."],
    )


@pytest.fixture(scope="module")
def results() -> Results:
    return judged(design())


def test_a_foreign_file_reads_and_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(FOREIGN)
    read = Results.read(path)
    assert read.indicator("rank_only").layer_B.fpr_min == 0.44
    assert read.boundary.seeds_eval == (100, 101, "140-179")
    assert read.event.t_event_by_seed == {"100": 120000, "101": None}
    assert read.design is None
    assert Results.read(read.write(tmp_path / "again.yaml")) == read


def test_ours_round_trips_and_equal_results_give_equal_bytes(
    results: Results, tmp_path: Path
) -> None:
    first = results.write(tmp_path / "a.yaml").read_bytes()
    assert Results.read(tmp_path / "a.yaml") == results
    assert judged(design()).write(tmp_path / "b.yaml").read_bytes() == first


class TestChecksums:
    @pytest.fixture
    def written(self, results: Results, tmp_path: Path) -> Path:
        return results.write(tmp_path / "results.yaml")

    def test_written_again_the_bytes_are_the_same(self, results: Results, written: Path):
        before = written.read_bytes()
        results.write(written)
        assert written.read_bytes() == before
        Results.read(written).write(written)
        assert written.read_bytes() == before

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ("3 rows", "4 rows", r"summary\.notes, summary\.x_notes"),
            ("name: rise", "name: fall", r"indicators\[\d\]"),
            ("run_id: ", "run_id: another_", r"meta\.run_id"),
        ],
    )
    def test_what_was_edited_is_named(self, written: Path, old: str, new: str, named: str):
        text = written.read_text()
        assert old in text
        written.write_text(text.replace(old, new))
        with pytest.raises(
            InputError, match=rf"was edited after gmb evaluate wrote it.*; changed: {named}; "
        ):
            Results.read(written)

    def test_there_may_be_none(self, results: Results, written: Path):
        results.model_copy(update={"x_checksum": None}).write(written)
        with pytest.raises(InputError, match=r"has no checksum \(x_checksum\); evaluate again"):
            Results.read(written).verify()

    def test_one_that_does_not_fit_is_refused(self, results: Results, written: Path):
        changed = results.model_copy(update={"x_protocol": "v0.4"})
        with pytest.raises(InputError, match="was edited"):
            changed.verify()
        changed.write(written)
        with pytest.raises(InputError, match="was edited"):
            Results.read(written)

    def test_results_that_were_read_are_not_checked_after_a_change(self, written: Path):
        read = Results.read(written)
        read.verify()
        with pytest.raises(InputError, match="was edited"):
            read.model_copy(update={"x_protocol": "v0.4"}).verify()

    def test_a_later_schema_says_who_wrote_it(self, written: Path):
        written.write_text(written.read_text().replace("x_schema: 2", "x_schema: 3"))
        message = r"is a results file of schema 3, written by gmb-hf .* reads schemas up to 2: upgr"
        with pytest.raises(InputError, match=message):
            Results.read(written)

    def test_the_copy_of_an_earlier_version_goes(self, results: Results, tmp_path: Path):
        copy = tmp_path / "results.json"
        copy.write_text('{"x_yaml_sha256":"00","x_json_sha256":"00","schema_version":"v0.4"}')
        results.write(tmp_path / "results.yaml")
        assert not copy.exists()
        copy.write_text("mine")
        results.write(tmp_path / "results.yaml")
        assert copy.read_text() == "mine"


def test_every_field_of_the_schema_is_there(results: Results) -> None:
    def check(found: Any, wanted: Any, path: str) -> None:
        if isinstance(wanted, dict) and not any(key.isdigit() for key in wanted):
            assert set(wanted) <= set(found), path
            for key, inner in wanted.items():
                check(found[key], inner, f"{path}.{key}")
        elif isinstance(wanted, list) and wanted:
            check(found[0], wanted[0], f"{path}[0]")

    check(results.plain(), parse_yaml(FOREIGN, where="foreign"), "results")


@pytest.mark.parametrize("with_events", [True, False])
@pytest.mark.parametrize("protocol", ["strict", "v0.4"])
def test_every_null_of_an_indicator_has_a_reason(with_events: bool, protocol: str) -> None:
    found = judged(design(protocol=protocol), with_events=with_events)
    for item in found.plain()["indicators"]:
        nulls = set(_nulls({key: value for key, value in item.items() if value != {}}, ""))
        assert nulls <= set(item["x_null_reasons"]), nulls - set(item["x_null_reasons"])
        assert all(item["x_null_reasons"].values())


def _nulls(value: Any, path: str) -> list[str]:
    if value is None:
        return [path]
    if isinstance(value, dict):
        return [
            found
            for key, item in value.items()
            for found in _nulls(item, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list):
        # In a list of numbers a null is what its field says it is.
        known = [(i, item) for i, item in enumerate(value) if item is not None]
        return [found for i, item in known for found in _nulls(item, f"{path}[{i}]")]
    return []


def test_what_has_no_number_says_why(results: Results) -> None:
    reasons = judged(design(), with_events=False).indicator("rise").x_null_reasons
    assert reasons["layer_C.at_fpr[0].coverage"] == "no judged run has an event"
    assert reasons["layer_C.at_fpr[0].lead_time_median"] == "no judged run has an event"
    flat = results.indicator("flat").x_null_reasons
    assert flat["layer_C.at_fpr[1].lead_time_median"] == "no event was detected at this target"
    assert "family" in results.indicator("rise").x_null_reasons


def test_an_abstaining_threshold_is_infinity_not_null(results: Results) -> None:
    scarce = results.indicator("rise").achieved(0.01)  # it takes 99 runs with negatives
    assert scarce is not None
    assert (scarce.x_threshold, scarce.x_answer) == (math.inf, "ABSTAIN")
    assert results.indicator("rise").achieved(0.5) is None


def test_events_are_told_by_seed_and_runs_without_one_say_so(results: Results) -> None:
    assert results.event.t_event_by_seed["0"] == 100
    assert results.event.t_event_by_seed["39"] is None
    assert results.event.x_without_event["39"] == "no event by step 2000"
    assert (results.summary.n_seeds, results.summary.n_events) == (40, 36)
    assert results.summary.notes == "3 rows were dropped."
    assert results.summary.x_n_too_early == 1
    assert isinstance(results.plain()["event"]["t_event_by_seed"]["0"], int)


def test_two_runs_of_one_seed_are_told_by_name() -> None:
    found = Results.assemble(
        [],
        RunLog.from_arrays(["a_1", "b_1"], np.array([0, 500]), {"score": np.zeros((2, 2))}),
        [100.0, math.nan],
        design=design(),
        calibration=CalibrationRecord(method="in_sample"),
        date="2026-01-27",
    )
    assert found.event.t_event_by_seed == {"a_1": 100, "b_1": None}


def test_provenance_says_what_made_the_numbers(results: Results) -> None:
    source = results.x_provenance
    assert source is not None
    fingerprint = str(source.evaluation_fingerprint)
    assert source.packages["numpy"] == np.__version__
    assert source.lock_hash is None
    assert len(str(source.prereg_hash)) == 64
    assert results.design == design()
    assert results.meta.run_id == f"toy_task_{fingerprint[:8]}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"v0.4"', '"v0.5"', "schema_version is 'v0.5', this version reads 'v0.4' only"),
        ("auc: 0.56", "auc: high", r"indicators\[0\]\.layer_A\.auc must be a number"),
        ("auc: 0.56", "auk: 0.56", "auk is unknown; did you mean auc"),
        ("      ap: 0.08\n", "", r"indicators\[0\]\.layer_A\.ap is required"),
        ("RANK_ONLY", "PROMISING", r"indicators\[0\]\.label must be 'SUPPORTED_FOR_ALARM'"),
        ("coverage: 1.0", "coverage: .nan", "coverage must be a finite number"),
        ("n_events: 1", "n_events: -1", "summary.n_events must be greater than or equal to 0"),
        ("ok_targets: 0", "ok_targets: true", "ok_targets must be a whole number"),
        ("fpr_min: 0.44", "fpr_min: 0.44\n      abstain_rate: .2", "abstain_rate is unknown"),
    ],
)
def test_what_does_not_match_the_schema_is_named(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(FOREIGN.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as raised:
        Results.read(path)
    assert "results.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_extension_of_somebody_else_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(FOREIGN.replace("ap: 0.08", "ap: 0.08\n      x_theirs: 7"))
    read = Results.read(path)
    again = Results.read(read.write(tmp_path / "again.yaml"))
    assert again.plain()["indicators"][0]["layer_A"]["x_theirs"] == 7


def test_two_indicators_of_one_name_are_refused(results: Results) -> None:
    plain = results.plain()
    plain["indicators"].append(plain["indicators"][0])
    with pytest.raises(InputError, match="the name 'rise' is used twice"):
        Results.parse(plain, where="results")
    with pytest.raises(InputError, match="there is no indicator 'ris'"):
        results.indicator("ris")


def test_the_shipped_json_schema_is_that_of_the_models() -> None:
    """`python tests/golden/regenerate.py` renews it."""
    shipped = files("gmb_hf.benchmark").joinpath("results_schema_v0.4.json").read_text()
    assert json.loads(shipped) == Results.json_schema()


def test_the_definition_of_done(results: Results, tmp_path: Path) -> None:
    checks = definition_of_done(results)
    assert [check.passed for check in checks] == [True] * 4 + [False]
    assert checks[0].detail == "36 events in 40 runs"
    few = definition_of_done(judged(design(event_count_min=37)))
    assert [check.passed for check in few] == [False, True, True, True, False]
    path = tmp_path / "results.yaml"
    path.write_text(FOREIGN)
    foreign = definition_of_done(Results.read(path))
    assert [check.passed for check in foreign] == [False, False, True, True, False]
    assert "missing: rank_only" in foreign[1].detail
