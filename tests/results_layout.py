"""The layout of a v0.4 results file as other people write it: no extension at all.

Field names are those of the published schema; the numbers are made up.
"""

from __future__ import annotations

EXAMPLE = """\
schema_version: "v0.4"
meta:
  benchmark: "GMB"
  run_id: "EXAMPLE_v0.4"
  date: "2026-01-27"
  commit_hash: "<git commit>"
  prereg_path: "docs/prereg.yaml"
boundary:
  task: "modular addition"
  model: "2-layer transformer"
  seeds_eval: [100, 101, 102]
event:
  type: "E_jump"
  t_event_by_seed:
    "100": 12000
    "101": 14500
    "102": null
summary:
  n_seeds: 3
  n_events: 2
  notes: "Illustrative only."
indicators:
  - name: "first"
    family: "dynamics"
    layer_A:
      auc: 0.57
      ap: 0.09
    layer_B:
      targets: [0.01, 0.05, 0.10]
      achieved:
        - {target: 0.01, achieved: 0.43}
        - {target: 0.05, achieved: 0.43}
        - {target: 0.10, achieved: 0.43}
      ok_targets: 0
      fpr_min: 0.43
      controllability_pass: false
      fpr_floor_detected: true
    layer_C:
      at_fpr:
        - fpr: 0.05
          coverage: 1.0
          lead_time_median: 1800
          lead_time_iqr: 200
          lead_time_success: 1.0
        - fpr: 0.10
          coverage: 1.0
          lead_time_median: 1800
          lead_time_iqr: 200
          lead_time_success: 1.0
    layer_D:
      family_size: 10
      pass_rate: 0.0
      label_flip_rate: 0.1
      sensitivity_notes: "Made up."
    label: "RANK_ONLY"
    diagnostics:
      effective_support_size: 1.7
      tie_dominance: 0.8
      comments: "Made up."
  - name: "second"
    family: "process"
    layer_A: {auc: 0.5, ap: 0.05}
    layer_B:
      targets: [0.01, 0.05, 0.10]
      achieved:
        - {target: 0.01, achieved: 0.01}
        - {target: 0.05, achieved: 0.05}
        - {target: 0.10, achieved: 0.10}
      ok_targets: 3
      fpr_min: 0.0
      controllability_pass: true
      fpr_floor_detected: false
    layer_C:
      at_fpr:
        - {fpr: 0.05, coverage: 0.5, lead_time_median: 1400, lead_time_iqr: 300,
           lead_time_success: 0.5}
        - {fpr: 0.10, coverage: 0.5, lead_time_median: 1300, lead_time_iqr: 250,
           lead_time_success: 0.5}
    layer_D: {family_size: 8, pass_rate: 0.75, label_flip_rate: 0.0, sensitivity_notes: ""}
    label: "SUPPORTED_FOR_ALARM"
    diagnostics: {effective_support_size: 12.0, tie_dominance: 0.05, comments: ""}
tables:
  gate_summary_path: "results/tables/gate_summary.csv"
  utility_at_fpr_path: "results/tables/utility_at_fpr.csv"
  robustness_path: "results/tables/robustness.csv"
"""

EMPTY = """\
schema_version: "v0.4"
meta:
  benchmark: "GMB"
  run_id: "<unique id>"
  date: "YYYY-MM-DD"
  commit_hash: null
  prereg_path: "docs/prereg.yaml"
boundary: {task: "<task name>", model: "<arch>", seeds_eval: ["100-119", "120-139"]}
event: {type: "E_jump", t_event_by_seed: {}}
summary: {n_seeds: 0, n_events: null, notes: ""}
indicators:
  - name: "CSD_lag1"
    family: "dynamics"
    layer_A: {auc: null, ap: null}
    layer_B:
      targets: [0.01, 0.05, 0.10]
      achieved:
        - {target: 0.01, achieved: null}
        - {target: 0.05, achieved: null}
        - {target: 0.10, achieved: null}
      ok_targets: null
      fpr_min: null
      controllability_pass: null
      fpr_floor_detected: null
    layer_C:
      at_fpr:
        - {fpr: 0.05, coverage: null, lead_time_median: null, lead_time_iqr: null,
           lead_time_success: null}
    layer_D: {family_size: null, pass_rate: null, label_flip_rate: null, sensitivity_notes: ""}
    label: "INCONCLUSIVE"
    diagnostics: {effective_support_size: null, tie_dominance: null, comments: ""}
tables:
  gate_summary_path: "results/tables/gate_summary.csv"
  utility_at_fpr_path: "results/tables/utility_at_fpr.csv"
  robustness_path: "results/tables/robustness.csv"
"""
