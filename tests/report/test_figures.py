"""Figures: they draw what they are given, save the same bytes, and survive the edge cases."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from evaluation_builders import NAMES, aligned_scores, curves, results
from evaluation_builders import first_alarm as first_alarm_of
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.first_alarm import FirstAlarmRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.report import style
from gmb_hf.report.answer import RankedVerdicts, answer
from gmb_hf.report.curves import (
    align,
    grokking_curves,
    held,
    median_over_runs,
    missed_events,
    scores_around_event,
)
from gmb_hf.report.figures import (
    STATES,
    first_alarm,
    fpr_control,
    label_summary,
    lead_times,
    leads_of,
)
from gmb_hf.report.style import rate_text, save_figure, shorten
from gmb_hf.runs.runlog import RunLog


def texts(figure: Figure) -> list[str]:
    """Every text that the figure shows, in the order in which it was made."""
    found = [text for axes in figure.axes for text in (*axes.texts, *axes.get_yticklabels())]
    named = [text for text in (figure._suptitle, figure._supxlabel) if text is not None]
    titles = [axes.title for axes in figure.axes] + [axes._left_title for axes in figure.axes]
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    return [item.get_text() for item in [*named, *found, *titles, *legends] if item.get_text()]


def test_align_puts_runs_on_the_clock_of_their_event() -> None:
    steps = np.array([[0, 10, 20, 30], [0, 10, 20, 0], [0, 10, 20, 30]])
    present = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)
    values = np.array([[1.0, 2, 3, 4], [5, 6, 7, 99], [8, 8, 8, 8]])
    offsets, aligned = align(values, steps, present, [20.0, 10.0, np.nan], reach=10)
    assert offsets.tolist() == [-10, 0, 10]
    np.testing.assert_array_equal(aligned, [[2, 3, 4], [5, 6, 7]])


def test_align_leaves_a_gap_where_a_run_has_no_checkpoint() -> None:
    offsets, aligned = align(
        [[1.0, 2, 3], [4, 5, 6]],
        [[0, 10, 20], [0, 15, 30]],
        np.ones((2, 3), dtype=bool),
        [10.0, 15.0],
        reach=100,
    )
    assert offsets.tolist() == [-15, -10, 0, 10, 15]
    np.testing.assert_array_equal(aligned, [[np.nan, 1, 2, 3, np.nan], [4, np.nan, 5, np.nan, 6]])


def test_the_median_is_over_the_runs_that_got_there() -> None:
    steps = np.array([[0, 10, 20], [0, 10, 0], [0, 10, 0]])
    values = np.array([[1.0, 4, 9], [2, 6, np.nan], [3, 5, np.nan]])
    grid, median = median_over_runs(steps, values)
    assert (grid.tolist(), median.tolist()) == ([0, 10], [2.0, 5.0])


def test_curves_show_every_run_and_every_event() -> None:
    log, events = curves(12)
    figure = grokking_curves(log, "test_acc", events)
    top = figure.axes[0]
    assert [len(collection.get_segments()) for collection in top.collections] == [12, 12]
    dots = next(line for line in top.lines if line.get_marker() == ".")
    assert len(dots.get_xdata()) == np.isfinite(events).sum()
    assert top.get_ylabel() == "accuracy"
    assert figure.axes[1].get_xlabel() == "training step"


@pytest.mark.parametrize("events", [True, False])
def test_curves_of_somebody_s_own_metric(events: bool) -> None:
    made, found = curves(3)
    panel = made.panel("test_acc")
    log = RunLog.from_arrays(made.runs, panel.steps, {"score_$x$": 40 * panel.values})
    figure = grokking_curves(log, "score_$x$", found if events else np.full(3, np.nan))
    assert figure.axes[0].get_ylabel() == "score_$x$"
    assert figure.axes[0].get_ylim()[1] > 30
    assert any("no event in 3 runs" in text for text in texts(figure)) is not events


def test_fpr_panels_do_not_share_a_label_and_show_the_floor() -> None:
    figure = fpr_control(results().indicators)
    visible = [axes for axes in figure.axes if axes.get_visible()]
    assert len(visible) == len(NAMES)
    assert len({axes._left_title.get_text() for axes in visible}) == len(NAMES)
    assert {"floor .58", "floor .13", "floor 1"} <= set(texts(figure))


def test_a_single_score_that_abstains_and_a_band_instead_of_a_cap() -> None:
    figure = fpr_control(results(["train_accuracy"]).indicators, cap=False)
    assert {"within tolerance", "no alarm"} <= set(texts(figure))
    assert not {"missed", "all others", "target met, 95% interval"} & set(texts(figure))


def test_scores_around_the_event_draw_threshold_and_horizon(tmp_path: Path) -> None:
    figure = scores_around_event(aligned_scores(), horizon=200, safe_gap=400)
    assert sum(axes.get_visible() for axes in figure.axes) == 6
    assert texts(figure).count("alarm: 1 run in 20") == 6
    assert save_figure(figure, tmp_path / "aligned", formats=("png",))[0].stat().st_size > 10_000


def around(name: str, offsets: NDArray[np.int64], values: NDArray[np.float64]) -> Scores:
    """Scores of runs whose events are at step 1,000."""
    runs, steps = len(values), np.tile(1000 + offsets, (len(values), 1))
    return Scores(
        name,
        tuple(f"run_{run}" for run in range(runs)),
        values,
        steps,
        np.ones(values.shape, dtype=bool),
        np.full(runs, 1000.0),
    )


def test_scores_without_events_thresholds_or_spread() -> None:
    offsets = np.arange(-100, 101, 50)
    flat = around("flat", offsets, np.ones((5, 5)))
    empty = dataclasses.replace(flat, name="no event", event_step=np.full(5, np.nan))
    shown = [
        (empty, None, "1 run in 20"),
        (flat, None, "1 run in 20"),
        (flat, np.inf, "1 run in 20"),
    ]
    figure = scores_around_event(shown, horizon=100)
    assert "no event to align" in texts(figure)
    assert not any("alarm" in text for text in texts(figure))


def test_missed_events_are_shown_run_by_run() -> None:
    steps = np.tile(np.arange(0, 100, 10), (4, 1))
    values = np.tile(np.linspace(0, 1, 10), (4, 1))
    log = RunLog.from_arrays(list("abcd"), steps[0], {"test_acc": values, "s": values})
    scores = Scores.from_panel(log.panel("s"), [80.0, 80.0, 80.0, np.nan])
    design: dict[str, Any] = {"horizon": 20, "safe_gap": 40}

    def drawn(*alarms: float | None, **more: int) -> Figure | None:
        return missed_events(scores, log.panel("test_acc"), 0.9, alarms, **design, **more)

    # a is detected in time, b falsely alarmed 40 steps before, c without an alarm, d has no event.
    figure = drawn(70, 40, None, 10)
    assert figure is not None
    assert [text for text in texts(figure) if "\n" in text] == [
        "b\nfalse alarm at 40",
        "c\nno alarm",
    ]
    assert figure.get_suptitle() == "s: 2 of 3 events not detected"
    assert drawn(70, 60, 41, None) is None
    one = drawn(None, None, None, None, count=1)
    assert one is not None
    assert one.get_suptitle().endswith("3 of 3 events not detected, the first 1")


def test_a_wild_tail_does_not_hide_the_threshold() -> None:
    offsets = np.arange(-100, 101, 10)
    values = np.random.default_rng(0).normal(0, 1, (40, len(offsets)))
    values[:2] = 1e9
    shown = [(around("wild", offsets, values), 2.0, "1 run in 20")]
    low, high = scores_around_event(shown, horizon=50).axes[0].get_ylim()
    assert -20 < low < -1
    assert 2 < high < 20


@pytest.mark.filterwarnings("error")
def test_numbers_near_the_end_of_float64_are_drawn(tmp_path: Path) -> None:
    offsets, signs = np.arange(-100, 101, 10), np.where(np.arange(21) % 2, 1.7e308, -1.7e308)
    scores = around("huge", offsets, np.tile(signs, (4, 1)))
    shown = [(scores, 1.6e308, "1 run in 20")]
    log = RunLog.from_arrays(
        scores.runs, scores.steps, {"loss": scores.values, "test_acc": scores.values}
    )
    drawn = {
        "scores": scores_around_event(shown, horizon=50),
        "loss": grokking_curves(log, "loss", scores.event_step),
        "accuracy": grokking_curves(log, "test_acc", scores.event_step),
    }
    for name, figure in drawn.items():
        save_figure(figure, tmp_path / name, formats=("png",))
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
        limits = [end for axes in figure.axes for end in (*axes.get_xlim(), *axes.get_ylim())]
        assert np.isfinite(limits).all(), name


def detected(name: str, leads: list[float], n_events: int) -> IndicatorRecord:
    """An indicator with these lead times at the target .05."""
    item = results([name]).indicators[0]
    point = item.layer_C.at(0.05).model_copy(
        update={"x_lead_times": tuple(leads), "x_n_events": n_events}
    )
    return item.model_copy(update={"layer_C": item.layer_C.model_copy(update={"at_fpr": (point,)})})


def test_lead_times_count_events_that_were_missed() -> None:
    rows = [
        detected("csd_lag1", [50.0, 100.0, 200.0, 200.0], 8),
        detected("clock", [], 8),
        detected("held_out_loss", [], 0),
    ]
    found = [leads_of(row, 0.05, None) for row in rows]
    assert found[1:] == [None, None]
    leads = [one for one in found if one is not None]
    assert leads[0].quantiles == pytest.approx([57.5, 87.5, 150, 200, 200])
    figure = lead_times(leads, horizon=200, lead_time_target=100, budget="budget .05 of windows")
    assert {"50%", "4 of 8", "csd_lag1"} <= set(texts(figure))
    assert figure.axes[0].get_xlim()[0] > figure.axes[0].get_xlim()[1]


def test_lead_times_by_runs_are_not_cut_at_the_horizon_and_few_are_drawn() -> None:
    items = results([f"score_{n}" for n in range(30)]).indicators
    every = [leads_of(item, 0.05, 0.05) for item in items]
    leads = [one for one in every if one is not None]
    assert leads[0].quantiles == [50, 100, 150, 200, 350]
    figure = lead_times(leads, horizon=200, lead_time_target=50, budget="budget 1 run in 20")
    assert f"{len(leads) - 24} more in the tables" in texts(figure)
    assert figure.axes[0].get_xlim()[0] > 350


def drawn(found: Results, name: str = "2 of 3") -> Figure:
    return first_alarm(answer(found), subtitle=name)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [1, 60])
def test_first_alarms_of_few_and_many_scores_with_long_names(count: int, tmp_path: Path) -> None:
    found = results([f"{'long_' * 20}{n}_$x$" for n in range(count)])
    figure = drawn(found, "s" * 300)
    shown = [" ".join(text.split()) for text in texts(figure)]
    assert answer(found).title in shown
    assert all(len(text) <= 160 for text in shown)
    path = save_figure(figure, tmp_path / "first", formats=("png",))[0]
    assert path.stat().st_size > 10_000


def test_first_alarms_say_who_may_and_why_the_others_may_not() -> None:
    found = results()
    figure = drawn(found)
    able = {item.name for item in found.indicators if item.x_alarm_eligible}
    names = figure.axes[0].get_yticklabels()
    assert able
    assert {text.get_text() for text in names if text.get_weight() == "bold"} == able
    shown = texts(figure)
    assert "constant" not in shown
    assert {"budget, 1 run in 20", "no better than chance by runs"} <= set(shown)
    assert "Sees no test labels: a monitor (bold: may raise an alarm)" in shown

    firsts = ((item, item.x_first_alarm) for item in found.indicators)
    few = tuple(item for item, first in firsts if first and first.at(0.05).answer == "ABSTAIN")
    shown = texts(drawn(found.model_copy(update={"indicators": few})))
    assert "abstains: too few calibration runs" in shown


def test_of_many_scores_the_first_alarms_of_the_best_are_drawn() -> None:
    found = results([f"score_{n}" for n in range(40)])
    shown = texts(drawn(found))
    assert sum(text.startswith("score_") for text in shown) == 14
    assert any(text.startswith("and 26 more, ") for text in shown)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("how", [{"n_events": 0}, {"n_free": 0}, {"n_events": 0, "n_free": 0}])
def test_first_alarms_without_events_or_without_other_runs(how: dict[str, int]) -> None:
    found = results(["csd_lag1", "clock"])
    record = FirstAlarmRecord.parse(first_alarm_of(0.5, **how), where="record")
    items = tuple(item.model_copy(update={"x_first_alarm": record}) for item in found.indicators)
    figure = drawn(found.model_copy(update={"indicators": items}))
    assert ("–" in texts(figure)) is ("n_events" in how)


def test_a_bar_of_false_alarms_in_most_runs_is_cut_and_says_its_number() -> None:
    found = results(["csd_lag1", "csd_variance", "clock"])
    first = found.indicators[0].x_first_alarm
    assert first is not None
    at = first.at(0.05)
    runs = at.n_events + at.n_event_free
    falsely = {"n_timely": 0, "n_early": 0, "n_missed": 0, "n_false_before_event": at.n_events}
    points = [
        point.model_copy(update=falsely) if point is at else point for point in first.at_budget
    ]
    worst = found.indicators[0].model_copy(
        update={"x_first_alarm": first.model_copy(update={"at_budget": tuple(points)})}
    )
    figure = drawn(found.model_copy(update={"indicators": (worst, *found.indicators[1:])}))
    share = 100 * (at.n_events + at.n_event_free_false) / runs
    assert share > 40
    assert f"‹ {share:.0f}" in texts(figure)
    others = [item.x_first_alarm.at(0.05) for item in found.indicators[1:] if item.x_first_alarm]
    most = max(100 * one.false_alarm_rate for one in others)  # which set the scale
    assert -figure.axes[0].get_xlim()[0] == pytest.approx(max(12, 1.08 * most))
    assert not any(text.startswith("‹") for text in texts(drawn(found)))


def test_the_summary_groups_scores_and_keeps_controls_last() -> None:
    found = results()
    said = answer(found)
    shown = texts(label_summary(said, subtitle="what was judged"))
    order = [
        shown.index(text)
        for text in (
            said.title,
            "Sees no test labels: a monitor",
            "Sees test labels: an oracle, shown for comparison",
            "Controls: what any monitor must beat",
        )
    ]
    assert order == sorted(order)
    assert shown.count("RANK ONLY") == sum(item.label == "RANK_ONLY" for item in found.indicators)
    assert "0.580" in shown
    assert {"By runs, budget 1 run in 20", "By windows, target 0.05"} <= set(shown)
    worst = found.indicator("train_accuracy")
    colours = {
        tuple(face)
        for axes in label_summary(
            RankedVerdicts((worst,), 0.05, 9, True, budget=0.05), subtitle=""
        ).axes
        for boxes in axes.collections
        for face in boxes.get_facecolor()
    }
    states = {gate.state for gate in worst.x_gates}
    assert {to_rgba(STATES[state][0]) for state in states} <= colours


def test_the_summary_of_a_score_without_any_number() -> None:
    item = results(["train_accuracy"]).indicators[0]
    layer = item.layer_B.model_copy(update={"fpr_floor_detected": False})
    bare = item.model_copy(update={"name": "x" * 90, "layer_B": layer})
    said = RankedVerdicts(
        (bare,), target=0.5, n_runs=9, locked=True
    )  # at which nothing was measured
    shown = texts(label_summary(said, subtitle="s" * 300))
    assert "–" in shown
    assert all(len(text) <= 160 for text in shown)


def test_figures_save_the_same_bytes_and_leave_no_trace(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    log, events = curves(6)
    for name in ("a", "b"):
        save_figure(grokking_curves(log, "test_acc", events), tmp_path / name)
    for suffix in ("png", "svg"):
        first, second = (tmp_path / f"{name}.{suffix}" for name in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()
    assert dict(mpl.rcParams) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]


def test_a_png_has_200_dots_an_inch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_dpi: int
) -> None:
    monkeypatch.setattr(style, "DPI", full_dpi)
    (path,) = save_figure(Figure(figsize=(2, 1)), tmp_path / "figure", formats=("png",))
    assert struct.unpack(">2I", path.read_bytes()[16:24]) == (400, 200)  # its header


def test_a_figure_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="could not be written"):
        save_figure(Figure(), tmp_path / "file" / "figure", formats=("png",))


def test_what_a_results_file_lacks_is_left_out() -> None:
    item = results(["csd_lag1"]).indicators[0]
    bare = item.model_copy(update={"x_sign": -1, "x_alarm_eligible": False, "x_reasons": ("odd",)})
    shown = texts(label_summary(RankedVerdicts((bare,), 0.05, 9, True), subtitle=""))
    assert {"csd_lag1 (reversed)", "odd"} <= set(shown)


def test_names_and_rates_are_short() -> None:
    assert shorten("a_very_long_indicator_name", 12) == "a_very_…name"
    assert shorten("  two\nlines ", 20) == "two lines"
    assert shorten("", 9) == "(no name)"
    assert [rate_text(value) for value in (0.05, 1.0, 0.0, 0.125)] == [".05", "1", "0", ".125"]


def test_a_run_that_has_ended_counts_with_its_last_value():
    """Without that the median of runs of which those that generalise end early falls to chance."""
    steps = np.array([[0, 10, 20, 30], [0, 10, 0, 0], [0, 10, 20, 0]])
    values = np.array([[0.0, 0.1, 0.2, 0.3], [0, 1, np.nan, np.nan], [0, 0.5, 1, np.nan]])
    grid, median = median_over_runs(*held(steps, values))
    assert grid.tolist() == [0, 10, 20, 30]
    assert median.tolist() == [0, 0.5, 1, 1]
    same_length = steps[:1].repeat(3, axis=0), values[:1].repeat(3, axis=0)
    assert all(np.array_equal(*pair) for pair in zip(held(*same_length), same_length, strict=True))
