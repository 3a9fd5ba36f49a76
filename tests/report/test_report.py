"""The report: the answer first, everything that it rests on, and no markup from other people."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from drawing import empty_figures
from evaluation_builders import aligned_scores, curves, indicator, results

from gmb_hf.base.escape import markdown
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord, ScopeRecord
from gmb_hf.report.answer import GROUPS, answer, group_of, primary_target, reason, subtitle
from gmb_hf.report.curves import grokking_curves, scores_around_event
from gmb_hf.report.figures import draw, featured
from gmb_hf.report.report import FIGURES, render_report, write_evaluation


def labelled(by_runs: bool = True, **labels: str) -> Results:
    """Scores with the labels wanted, all without test labels but `clock`."""
    made = results(list(labels))
    items = [
        item.model_copy(
            update={
                "label": labels[item.name],
                "x_reasons": (),
                "x_first_alarm": item.x_first_alarm if by_runs else None,
                "x_sees_test_labels": False,
                "x_alarm_eligible": labels[item.name] == "SUPPORTED_FOR_ALARM",
            }
        )
        for item in made.indicators
    ]
    return made.model_copy(update={"indicators": tuple(items)})


@pytest.fixture(scope="module")
def found() -> Results:
    return results()


def test_it_opens_with_the_answer_and_one_table(found: Results) -> None:
    lines = render_report(found).splitlines()
    assert lines[0].startswith("# Which scores may raise an alarm")
    assert lines[2] == f"**{markdown(answer(found).sentence)}**"
    assert lines[4].startswith(
        "| score | label | detection rate | timely detection rate | false-alarm rate per run |"
    )
    assert "| false positive rate by windows | coverage by windows |" in lines[4]
    windows = labelled(by_runs=False, vei="RANK_ONLY", curvature="RANK_ONLY")
    lines = render_report(windows).splitlines()
    assert lines[4].startswith("| score | label | false positive rate by windows |")
    assert "detection rate |" not in "\n".join(lines)


def test_the_first_alarm_is_explained_and_other_events_stand_beside(found: Results) -> None:
    report = render_report(found)
    sections = re.findall(r"^## (.*)$", report, flags=re.MULTILINE)
    for name in ("All scores", "The same scores before other events", "Gates that are not met"):
        assert name in sections
    assert "- **First alarm**: whoever acts on a score acts on its first alarm" in report
    assert "- *detection rate*: share of events whose first alarm" in report
    assert "| 1 run in 20 | 0.045 | 0.065 |" in report
    assert "| score | E_jump 0.2 in 100 | E_plateau 0.9 x 5 |" in report


def test_there_is_one_label_and_one_list_of_gates(found: Results) -> None:
    report = render_report(found)
    assert "label by" not in report
    section = report.split("## Gates that are not met")[1].split("## ")[0]
    for item in found.indicators:
        for gate in item.x_gates:
            line = f"| {item.name} | {gate.unit} | {gate.gate} | {gate.state} | {gate.detail} |"
            assert (line in section) is (gate.state != "met")


def test_every_indicator_stands_in_its_group(found: Results) -> None:
    groups = render_report(found).split("## All scores")[1].split("## Why")[0]
    for name, heading in GROUPS.items():
        section = groups.partition(f"### {heading}\n")[2].partition("###")[0].partition("##")[0]
        members = [item.name for item in found.indicators if group_of(item) == name]
        rows = re.findall(r"^\| (\S+) \| [A-Z_]+ \|", section, flags=re.MULTILINE)
        assert sorted(rows) == sorted(members)


def test_every_failure_has_its_reason(found: Results) -> None:
    section = render_report(found).split("## Why the others may not")[1].split("## ")[0]
    failing = [
        item for item in found.indicators if not item.x_alarm_eligible and item.family != "control"
    ]
    assert (
        section.count("\n- **") == section.count("a sentence about this verdict.") == len(failing)
    )
    assert all(f"- **{item.name}** (" in section for item in failing)


def test_the_definition_of_done_is_a_checklist(found: Results) -> None:
    report = render_report(found)
    assert report.count("- [x] ") == 5
    assert "The run is acceptable by section 7" in report
    few = found.model_copy(update={"summary": found.summary.model_copy(update={"n_events": 7})})
    assert "- [ ] At least 30 events across seeds: 7 events" in render_report(few)
    assert "**not** acceptable" in render_report(few)
    assert "30 are needed for a verdict" in render_report(few)


def test_figures_are_linked_relative_and_only_if_they_exist(found: Results) -> None:
    bare = render_report(found)
    assert "![" not in bare
    linked = render_report(found, figures={name: f"fig ures/{name}.png" for name in FIGURES})
    assert re.findall(r"\]\((fig[^)]*)\)", linked) == [
        f"fig%20ures/{name}.png"
        for name in ["first", "summary", "curves", "fpr", "aligned", "leads", "missed"]
    ]


def test_a_note_and_the_next_command_are_shown(found: Results) -> None:
    report = render_report(found, note="Few runs: `gmb run`.", next_command="gmb run --out a_b")
    assert "\n> Few runs: `gmb run`.\n" in report
    assert report.endswith("## Next\n\n```\ngmb run --out a_b\n```\n")
    assert "## Next" not in render_report(found)


def test_it_is_tidy_markdown(found: Results) -> None:
    report = render_report(found, note="n", figures={"summary": "s.png"}, next_command="c")
    assert "\n\n\n" not in report
    assert all(line == line.rstrip() for line in report.splitlines())
    for match in re.finditer(r"^#+ .*$", report, flags=re.MULTILINE):
        if match.start():
            assert report[match.start() - 2 : match.start()] == "\n\n"
            assert report[match.end() : match.end() + 2] == "\n\n"
    for table in re.findall(r"(?:^\|.*\n)+", report, flags=re.MULTILINE):
        assert len({line.count(" | ") for line in table.splitlines()}) == 1


def test_names_full_of_markup_stay_names() -> None:
    nasty = "<script>|*x*_[l](u)"
    report = render_report(results([nasty]))
    assert nasty not in report
    assert "\\<script\\>\\|\\*x\\*\\_\\[l\\](u)" in report


def test_without_prereg_calibration_or_provenance_it_still_reports(found: Results) -> None:
    bare = found.model_copy(
        update={"x_prereg": None, "x_calibration": None, "x_provenance": None, "x_protocol": None}
    )
    report = render_report(bare)
    assert "the preregistration is not stored with the results" in report
    assert "Where the thresholds come from is not stored." in report
    assert draw(bare) == {}
    assert primary_target(bare) == 0.05


def test_first_alarms_at_other_budgets_than_the_preregistration_has(found: Results) -> None:
    """Such a file is refused by `gmb results validate`; its windows can be shown all the same."""
    assert found.design is not None
    other = found.design.replace(run_budgets=(0.3,), primary_run_budget=0.3, min_targets_ok=1)
    mixed = found.model_copy(update={"x_prereg": other.plain()})
    assert answer(mixed).budget is None
    assert "detection rate |" not in render_report(mixed)


def test_calibration_says_what_its_runs_buy(found: Results) -> None:
    report = render_report(found)
    assert "Thresholds were locked on explore runs" in report
    assert "| 0.05 | 0.041 |" in report
    calibration = found.x_calibration
    assert calibration is not None
    few = found.model_copy(update={"x_calibration": calibration.model_copy(update={"n_runs": 32})})
    assert "| 0.01 | no finite threshold: 99 runs are needed |" in render_report(few)


def test_the_answer_counts_monitors_only() -> None:
    made = labelled(
        csd_lag1="SUPPORTED_FOR_ALARM", vei="RANK_ONLY", curvature="INCONCLUSIVE", clock="RANK_ONLY"
    )
    said = answer(made)
    assert said.title == "1 of 3 scores may raise an alarm with a budget of 1 run in 20"
    assert said.sentence.startswith(f"{said.title}; csd_lag1 detects ")
    assert " with a median lead time of 150 steps; false alarms in " in said.sentence
    assert re.search(r"; best chance baseline \d+% \([\w ]+, p <0\.001\)\.$", said.sentence)
    assert [item.name for item in said.supported] == ["csd_lag1"]
    assert said.ranked[0].name == "csd_lag1"
    assert said.ranked[-1].name == "clock"
    assert [item.name for item in featured(said, 2)] == ["csd_lag1", "curvature"]


def test_the_answer_when_there_is_none() -> None:
    said = answer(labelled(vei="RANK_ONLY", curvature="INCONCLUSIVE", csd_lag1="RANK_ONLY"))
    assert said.title == "No alarm yet with a budget of 1 run in 20: 1 of 3 not decided"
    assert said.sentence == (
        "None of 3 scores may raise an alarm yet with a budget of 1 run in 20: 1 not decided by "
        "256 held-out runs, 2 no more than a ranking."
    )
    none = answer(labelled(vei="RANK_ONLY", csd_lag1="ESTIMATOR_UNSTABLE"))
    assert none.title == "None of 2 scores may raise an alarm with a budget of 1 run in 20"
    assert none.supported == ()


def test_two_supported_scores_name_the_best() -> None:
    made = labelled(csd_lag1="SUPPORTED_FOR_ALARM", vei="SUPPORTED_FOR_ALARM")
    best = answer(made).ranked[0].name
    assert f"; the best, {best}, detects " in answer(made).sentence


@pytest.mark.parametrize("by_runs", [True, False])
def test_one_score_speaks_for_itself(by_runs: bool) -> None:
    made = labelled(by_runs, vei="RANK_ONLY", clock="RANK_ONLY")
    assert answer(made).sentence == "vei: vei: a sentence about this verdict."


def test_where_only_windows_were_judged_the_answer_is_by_windows() -> None:
    made = labelled(
        by_runs=False, csd_lag1="SUPPORTED_FOR_ALARM", vei="INCONCLUSIVE", curvature="RANK_ONLY"
    )
    said, point = answer(made), made.indicator("csd_lag1").point(0.05)
    assert point is not None
    assert said.title == "1 of 3 scores may raise an alarm at a false positive rate of 5%"
    assert f"; it (csd_lag1) detected {point.coverage:.0%} of events " in said.sentence
    assert f"(best chance baseline {point.chance:.0%})" in said.sentence


def test_a_scope_is_stated_and_an_unlocked_score_only_passes() -> None:
    made = labelled(vei="SCOPE_LIMITED", csd_lag1="RANK_ONLY")
    scope = ScopeRecord(name="late", where="event_step > 500")
    items = tuple(
        item.model_copy(update={"x_scope": scope}) if item.name == "vei" else item
        for item in made.indicators
    )
    said = answer(made.model_copy(update={"indicators": items})).sentence
    assert "1 good in a stated scope only (vei where event_step > 500)" in said
    supported = labelled(vei="SUPPORTED_FOR_ALARM", csd_lag1="RANK_ONLY")
    items = tuple(
        item.model_copy(update={"x_alarm_eligible": False}) for item in supported.indicators
    )
    open_ended = supported.model_copy(update={"indicators": items, "x_calibration": None})
    assert answer(open_ended).title == (
        "Exploratory, without a lock: 1 of 2 scores pass every gate, none may raise an alarm, with "
        "a budget of 1 run in 20"
    )


def test_groups_and_reasons_in_words() -> None:
    def group(**fields: object) -> str:
        base: IndicatorRecord = indicator("vei", np.random.default_rng(0))
        return group_of(base.model_copy(update=fields))

    assert group(x_sees_test_labels=False) == "monitor"
    assert group(x_sees_test_labels=True) == "oracle"
    assert group(x_sees_test_labels=None) == "undeclared"
    assert group(family="control", x_sees_test_labels=True) == "control"
    assert reason("windows_floor") == "false-alarm floor by windows"
    assert reason("few_events") == "too few events"
    assert reason("some_new_code") == "some new code"


def test_a_whole_evaluation_lies_in_its_folder(tmp_path: Path) -> None:
    made = results(["csd_lag1", "train_accuracy", "clock"])
    log, events = curves(8)
    drawn = {
        **draw(made),
        "curves": grokking_curves(log, "test_acc", events),
        "aligned": scores_around_event(aligned_scores()[:1], horizon=200),
    }
    with empty_figures():
        written = write_evaluation(
            made, tmp_path / "out", drawn, note="A note.", next_command="gmb run"
        )
    assert all(path.is_file() for path in written)
    assert written[0] == tmp_path / "out" / "report.md"
    assert sorted({path.parent.name for path in written}) == ["figures", "out", "tables"]
    assert Results.read(tmp_path / "out" / "results.yaml") == made
    report = written[0].read_text()
    assert "A note." in report
    links = re.findall(r"\]\(([^)]+)\)", report)
    assert len(links) == 8
    assert all((tmp_path / "out" / link).is_file() for link in links)
    assert made.tables.gate_summary_path in links


def test_the_subtitle_says_what_was_judged(found: Results) -> None:
    assert subtitle(found) == (
        "subtraction mod 29 · 1 layer, width 32 · 256 held-out runs, "
        f"{found.summary.n_events} events · thresholds locked on 100 explore runs"
    )
