"""The preregistration: the reference's fields load unchanged, every mistake names its path."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gmb_hf.base.documents import dump_yaml, parse_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design

# Field for field the layout of a v0.4 preregistration, with YAML's own traps: a date that is not
# quoted, and numbers such as 1e-3 that YAML 1.1 readers take for text.
REFERENCE = """\
meta:
  benchmark: "GMB"
  version: "v0.4"
  date_locked: 2026-01-27
  researcher: "A. Researcher"
  commit_hash: "<git commit>"
boundary:
  task: "modular addition"
  model: "2-layer transformer"
  optimizer: "AdamW"
  schedule: "constant"
  checkpoint_every_steps: 10
  seeds_explore: [42, 123, 456]
  seeds_eval: [1001, 1002, 1003]
event:
  type: "E_jump"  # E_jump | E_plateau | E_regime
  metric: "test_acc"
  window_W_event: 50
  jump_threshold: 0.15
  earliest_rule: true
labels:
  positive_window:
    horizon_steps: 2000
    lead_time_target: 200
  negative_window:
    safe_gap_steps: 2000
operating_points:
  fpr_targets: [0.01, 0.05, 0.10]
  fpr_eps: 1e-2
  fpr_floor_max: 0.20
  min_targets_ok: 2
candidates:
  - name: "CSD_lag1"
    family: "dynamics"
    params:
      window: 200
      smooth: 0.10
  - name: "process_disagreement"
    family: "process"
    params:
      samples: 8
  - name: "HC_tau_L_p90"
    family: "hierarchical_convergence"
    params:
      epsilon_residual: 1e-3
      aggregation: "p90"
      cycle_T: 16
decision_thresholds:
  coverage_at_0_05_min: 0.30
  lead_time_median_min: 50
  robustness:
    window_sweep: [100, 150, 200, 250]
    max_label_flip_rate: 0.20
reporting:
  required_tables: ["gate_summary", "utility_at_fpr", "robustness"]
  report_all_failures: true
"""


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "prereg.yaml"
    path.write_text(REFERENCE)
    return path


def edited(path: str, value: Any) -> dict[str, Any]:
    """The reference with the value at a dotted path replaced."""
    data: dict[str, Any] = parse_yaml(REFERENCE, where="reference")
    *parents, last = path.split(".")
    section: Any = data
    for parent in parents:
        section = section[int(parent)] if parent.isdigit() else section[parent]
    section[last] = value
    return data


def test_the_reference_fields_load_unchanged(reference: Path) -> None:
    design = Design.read(reference)
    assert design.date_locked == "2026-01-27"
    assert design.seeds_eval == (1001, 1002, 1003)
    assert design.fpr_eps == 0.01
    assert [item.params for item in design.candidates] == [
        {"window": 200, "smooth": 0.1},
        {"samples": 8},
        {"epsilon_residual": 1e-3, "aggregation": "p90", "cycle_T": 16},
    ]
    saved = design.plain()
    loaded = parse_yaml(REFERENCE, where="reference")
    for section, fields in loaded.items():
        if isinstance(fields, dict):
            assert {key: saved[section][key] for key in fields} == fields
        else:
            assert saved[section] == fields


def test_an_exponent_that_another_reader_took_for_text_is_a_number() -> None:
    data = yaml.safe_load(REFERENCE.replace("2026-01-27", "'2026-01-27'"))
    assert data["candidates"][2]["params"]["epsilon_residual"] == "1e-3"
    data["operating_points"]["fpr_eps"] = 0.01
    assert Design.parse(data, where="x").candidates[2].params["epsilon_residual"] == 1e-3


def test_flat_properties_read_the_sections(reference: Path) -> None:
    design = Design.read(reference)
    assert (design.horizon, design.safe_gap, design.lead_time_target) == (2000, 2000, 200)
    assert (design.fpr_targets, design.fpr_floor_max) == ((0.01, 0.05, 0.1), 0.2)
    assert (design.min_targets_ok, design.coverage_min) == (2, 0.3)
    assert (design.lead_time_median_min, design.max_label_flip_rate) == (50, 0.2)
    assert design.window_sweep == (100, 150, 200, 250)
    assert (design.metric, design.w_event, design.jump_threshold) == ("test_acc", 50, 0.15)
    assert (design.protocol, design.burn_in, design.primary_fpr) == ("strict", 0, 0.05)
    assert (design.event_count_min, design.episode_gap) == (30, 2000)


def test_minimal_has_the_published_defaults_and_takes_flat_overrides() -> None:
    design = Design.minimal(horizon=200, safe_gap=400, metric="acc", refractory=50)
    assert design.fpr_targets == (0.01, 0.05, 0.10)
    assert (design.metric, design.episode_gap) == ("acc", 50)
    assert design.replace(horizon=250).horizon == 250
    assert design.replace(horizon=250).metric == "acc"
    assert design.horizon == 200


def test_it_survives_a_round_trip(reference: Path, tmp_path: Path) -> None:
    design = Design.read(reference)
    assert Design.read(design.write(tmp_path / "copy.yaml")) == design


@given(
    horizon=st.integers(1, 10**9),
    gap=st.integers(1, 10**9),
    target=st.floats(1e-6, 0.999),
    name=st.text(min_size=1).filter(lambda text: text.isprintable()),
)
@example(horizon=1, gap=1, target=0.5, name="0E0")
@example(horizon=1, gap=1, target=0.5, name="2020-01-01")
def test_any_design_survives_yaml(horizon: int, gap: int, target: float, name: str) -> None:
    design = Design.minimal(
        horizon=horizon,
        safe_gap=gap,
        fpr_targets=[target],
        min_targets_ok=1,
        primary_fpr=target,
        candidates=[{"name": name, "params": {"window": horizon}}],
    )
    assert Design.parse(parse_yaml(dump_yaml(design.plain()), where="x"), where="x") == design


def test_the_template_loads_and_names_every_field(tmp_path: Path) -> None:
    path = tmp_path / "prereg.yaml"
    path.write_text(Design.template())
    design = Design.read(path)
    assert design.horizon < design.safe_gap
    assert design.replace(horizon=1, safe_gap=2, candidates=[]) == Design.minimal(
        horizon=1, safe_gap=2
    )
    for name in ("x_refractory_steps", "x_event_t_min", "x_sees_test_labels", "window_sweep"):
        assert f"{name}:" in Design.template()
    fields = [line for line in Design.template().splitlines() if not line.startswith("#")]
    assert all("  # " in line for line in fields)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("event.windw_W_event", 3, r"event\.windw_W_event is unknown; did you mean window_W_event"),
        ("candidates.0.paramz", {}, r"candidates\[0\]\.paramz is unknown; did you mean params\?"),
        ("x_protocoll", "strict", "x_protocoll is unknown; did you mean x_protocol"),
        ("zzz", 1, "zzz is unknown; known: meta, boundary"),
        ("event.window_W_event", "fifty", "event.window_W_event must be a whole number"),
        ("event.window_W_event", 50.5, "event.window_W_event must be a whole number"),
        ("event.window_W_event", True, "event.window_W_event must be a whole number"),
        ("event.window_W_event", 0, "event.window_W_event must be greater than or equal to 1"),
        ("event.jump_threshold", "high", "event.jump_threshold must be a number"),
        (
            "event.type",
            "E_jmp",
            "event.type must be 'E_jump', 'E_plateau', 'E_onset' or 'E_regime'",
        ),
        ("event.type", "E_plateau", "event: E_plateau needs x_plateau_checkpoints"),
        ("event.earliest_rule", False, "event.earliest_rule must be True"),
        ("event.metric", 3, r"event.metric must be text \(put it in quotes\)"),
        ("meta.version", "v0.5", "meta.version must be 'v0.4'"),
        ("labels", None, "labels must be a mapping"),
        ("labels.positive_window.horizon_steps", -1, "horizon_steps must be greater"),
        ("operating_points.fpr_targets", [0.01, 2], r"fpr_targets\[1\] must be less than 1"),
        ("operating_points.fpr_targets", 0.01, "fpr_targets must be a list"),
        ("operating_points.fpr_targets", [0.05, 0.05], "each once"),
        ("operating_points.fpr_targets", [0.05], "min_targets_ok is 2, but there are only 1"),
        ("x_primary_fpr", 0.2, r"x_primary_fpr 0.2 is not among .* \[0.01, 0.05, 0.1\]"),
        ("boundary.seeds_eval", [1, 2, 1], "seeds_eval: seed 1 is listed twice"),
        ("boundary.seeds_eval", ["1-9"], r"seeds_eval\[0\] must be a whole number"),
        ("candidates.0.params", 3, r"candidates\[0\]\.params must be a mapping"),
        ("candidates.0.params", {"w": [1]}, r"candidates\[0\]\.params: w must be a number"),
        ("candidates.1.name", "CSD_lag1", "the name 'CSD_lag1' is used twice"),
        ("x_smoothing_sweep", [], "x_smoothing_sweep must name at least one"),
    ],
)
def test_a_mistake_names_its_path(path: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        Design.parse(edited(path, value), where="prereg.yaml")
    assert str(raised.value).startswith("prereg.yaml: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "path", ["labels.positive_window.horizon_steps", "labels.negative_window.safe_gap_steps"]
)
def test_horizon_and_gap_have_no_default(path: str) -> None:
    data = copy.deepcopy(edited(path, None))
    first, second, last = path.split(".")
    del data[first][second][last]
    with pytest.raises(InputError, match=rf"{path} is required; add it"):
        Design.parse(data, where="prereg.yaml")


def test_an_unknown_override_names_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'burn_in'"):
        Design.minimal(horizon=1, safe_gap=2, burn_inn=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event:\n  metric: a\n  metric: b\n", "line 3: key 'metric' is given twice"),
        ("event: [", r"line \d: "),
        ("", "is empty"),
        ("- 1\n", "must be a mapping"),
        ("a: \x07", "is not YAML|special characters|control characters"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
    ],
)
def test_a_broken_file_is_one_clear_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "prereg.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        Design.read(path)
    assert "prereg.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        Design.read(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="this is a folder"):
        Design.read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"meta: {researcher: \xe9}")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        Design.read(tmp_path / "latin.yaml")


class TestOtherEvents:
    """`x_also_events`: each is another event than the design's own, with a name of its own."""

    def named(self, *also: dict[str, Any]) -> dict[str, Design]:
        lengths = {"horizon": 100, "safe_gap": 200, "w_event": 50}
        asked = {"candidates": [{"name": "a"}], "also_events": also}
        design = Design.minimal(**lengths, jump_threshold=0.2, **asked)
        return dict(design.other_events())

    def test_the_event_itself_is_passed_over(self) -> None:
        assert not self.named({"type": "E_jump"}, {"type": "E_jump", "jump_threshold": 0.2})

    def test_what_has_the_same_name_says_what_differs(self) -> None:
        asked = (
            {"type": "E_jump", "metric": "val_acc"},
            {"type": "E_jump", "x_require_new_max": True, "x_theta_floor": 0.5},
            {"type": "E_jump", "jump_threshold": 0.3},
            {"type": "E_jump", "jump_threshold": 0.3, "x_require_new_max": True},
        )
        found = self.named(*asked)
        assert list(found) == [
            "E_jump 0.2 in 50, metric val_acc",
            "E_jump 0.2 in 50, x_theta_floor 0.5, x_require_new_max true",
            "E_jump 0.3 in 50",
            "E_jump 0.3 in 50, x_require_new_max true",
        ]
        first = found["E_jump 0.2 in 50, metric val_acc"]
        assert (first.metric, first.candidates[0].name, first.also_events) == ("val_acc", "a", ())

    def test_one_that_is_given_twice_is_refused(self) -> None:
        other = {"type": "E_jump", "metric": "val_acc"}
        message = "x_also_events: E_jump 0.2 in 50, metric val_acc is listed twice"
        with pytest.raises(InputError, match=message):
            self.named(other, other)
