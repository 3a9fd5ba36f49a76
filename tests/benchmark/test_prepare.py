"""Which rows, events and scores are judged; robustness families, and the test for causality."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, InputError, RunLog
from gmb_hf.benchmark.events import find_events
from gmb_hf.benchmark.locking import explore, family_members, make_lock, non_causal
from gmb_hf.benchmark.own_runs import own_score
from gmb_hf.benchmark.prepare import (
    CONTROLS,
    Entry,
    Prepared,
    available_candidates,
    entries_of,
    namesakes,
    prepare,
    resolve,
)
from gmb_hf.design.candidates import Candidate
from gmb_hf.design.design import PARTS
from gmb_hf.indicators.catalogue import Indicator, get, names


def candidate(name: str, **more: object) -> Candidate:
    return Candidate.parse({"name": name, **more}, where="test")


class TestResolve:
    def test_a_registered_indicator_with_its_parameters(self, explore_log: RunLog):
        entry = resolve(candidate("csd_variance", params={"window": 80}), explore_log)
        assert (entry.name, entry.sign, entry.window) == ("csd_variance", 1, 80)
        assert entry.indicator is get("csd_variance")

    def test_a_column_of_the_log(self, explore_log: RunLog):
        column = candidate("embedding_rank", x_sign=-1, x_sees_test_labels=True)
        entry = resolve(column, explore_log)
        assert (entry.indicator.family, entry.sign, entry.window) == ("external", -1, None)
        assert entry.indicator.sees_test_labels is True

    def test_the_score_is_the_column_times_the_sign(self, explore_log: RunLog, design: Design):
        prepared = prepare(explore_log, design)
        entry = resolve(candidate("embedding_rank", x_sign=-1), explore_log)
        scores = prepared.scores(entry)
        assert np.array_equal(scores.values, -explore_log.panel("embedding_rank").values)
        events = find_events(explore_log, design)
        assert np.array_equal(scores.event_step, events.step, equal_nan=True)

    def test_another_window_changes_a_windowed_score_only(
        self, explore_log: RunLog, design: Design
    ):
        prepared = prepare(explore_log, design)
        windowed, plain = (
            resolve(candidate(name, family=get(name).family), explore_log)
            for name in ("embedding_norm_drop", "test_loss")
        )
        assert windowed.window == get("embedding_norm_drop").parameters["window"]
        for entry, changes in ((windowed, True), (plain, False)):
            first, second = (prepared.scores(entry, window=w).values for w in (50, 150))
            assert np.array_equal(first, second, equal_nan=True) is not changes

    def test_an_unknown_name(self, explore_log: RunLog):
        with pytest.raises(InputError, match=r"'embeding_gini' is neither a column nor an indic"):
            resolve(candidate("embeding_gini"), explore_log)
        with pytest.raises(InputError, match=r"Did you mean 'embedding_gini'\?"):
            resolve(candidate("embeding_gini"), explore_log)

    def test_what_an_indicator_sees_is_not_a_matter_of_opinion(self, explore_log: RunLog):
        with pytest.raises(InputError, match="'test_loss': x_sees_test_labels is False, but"):
            resolve(candidate("test_loss", family="oracle", x_sees_test_labels=False), explore_log)
        honest = candidate("test_loss", family="oracle", x_sees_test_labels=True)
        assert resolve(honest, explore_log).name

    def test_a_column_with_the_name_of_an_indicator(self, explore_log: RunLog):
        taken = resolve(candidate("disagreement", family="process"), explore_log)
        assert taken.indicator is get("disagreement")
        column = resolve(candidate("disagreement", family="external"), explore_log)
        assert (column.indicator.family, column.indicator.orientation) == ("external", 1)
        with pytest.raises(InputError, match="set family: external for the column, or family: pro"):
            resolve(candidate("disagreement"), explore_log)

    def test_a_control_is_no_column(self, explore_log: RunLog):
        with pytest.raises(InputError, match="'clock': is the name of a control; rename the col"):
            resolve(candidate("clock", family="external"), explore_log)

    def test_a_column_of_text_says_why_it_is_no_score(self):
        log = synthetic_runlog(2, 5)
        table = log.table.append_column("host", [["node"] * log.table.num_rows])
        with pytest.raises(InputError, match="column 'host' holds 'node', not a number"):
            resolve(candidate("host"), RunLog.from_table(table))


class TestOwnScore:
    """Of somebody's own log the column is meant, where there is one."""

    def test_the_column_comes_first(self, explore_log: RunLog):
        found = own_score("disagreement", explore_log, sign=-1, sees_test_labels=False)
        entry = resolve(Candidate.parse(found, where="test"), explore_log)
        assert (entry.indicator.family, entry.sign) == ("external", -1)
        assert entry.indicator.sees_test_labels is False
        assert namesakes([entry], explore_log) == [
            "Columns of the log, not the indicators of that name: disagreement."
        ]

    def test_a_column_that_is_an_indicator_as_it_stands_needs_no_declaration(
        self, explore_log: RunLog
    ):
        found = own_score("embedding_gini", explore_log)
        assert found["x_sees_test_labels"] is False
        assert own_score("embedding_gini", explore_log, sees_test_labels=True)["x_sees_test_labels"]

    def test_an_indicator_where_there_is_no_such_column(self, explore_log: RunLog):
        found = own_score("test_loss_drop", explore_log, sees_test_labels=False)
        entry = resolve(Candidate.parse(found, where="test"), explore_log)
        assert entry.indicator is get("test_loss_drop")
        assert namesakes([entry], explore_log) == []

    def test_a_declared_indicator_is_named_too(self, explore_log: RunLog):
        assert namesakes([Entry(get("disagreement"))], explore_log) == [
            "Indicators, not the columns of the log of that name: disagreement."
        ]

    @pytest.mark.parametrize("name", ["clock", "nothing_like_it"])
    def test_a_control_or_nothing(self, explore_log: RunLog, name: str):
        found = own_score(name, explore_log)
        assert found["name"] == name
        assert found.get("family") in (None, "control")


class TestEntries:
    def test_controls_come_last_and_once(self, explore_log: RunLog, design: Design):
        found = [entry.name for entry in entries_of(design, explore_log)]
        assert found == ["embedding_norm_drop", "embedding_gini", "embedding_rank", *CONTROLS]
        more = design.replace(candidates=[{"name": "clock"}, {"name": "test_loss_drop"}])
        assert [entry.name for entry in entries_of(more, explore_log)] == [
            "clock",
            "test_loss_drop",
            "constant",
            "steps_since_memorisation",
        ]

    def test_a_design_without_candidates(self, explore_log: RunLog, design: Design):
        with pytest.raises(InputError, match="the preregistration has no candidates"):
            entries_of(design.replace(candidates=[]), explore_log)


class TestPrepared:
    def test_scores_and_events_are_computed_once(
        self, explore_log: RunLog, design: Design, monkeypatch: pytest.MonkeyPatch
    ):
        computed: list[str] = []

        def counted(self: Entry, log: RunLog) -> object:
            computed.append(self.name)
            return panel(self, log)

        panel = Entry.panel
        monkeypatch.setattr(Entry, "panel", counted)
        prepared = prepare(explore_log, design)
        explore(design, prepared)
        computed.clear()
        make_lock(design, prepared)
        # The declared window is known from exploring; the two others of the family are not.
        assert computed == ["embedding_norm_drop", "embedding_norm_drop"]
        assert prepared.events is prepared.events

    def test_what_is_prepared_is_given_back(self, explore_log: RunLog, design: Design):
        prepared = prepare(explore_log, design)
        assert isinstance(prepared, Prepared)
        assert prepare(prepared, design) is prepared
        assert prepared.log is prepared.judged is explore_log
        assert prepared.left_out == ()

    def test_files_will_do(self, explore_log: RunLog, design: Design, tmp_path: Path):
        path = explore_log.write(tmp_path / "explore.parquet")
        assert prepare(path, design).log.fingerprint() == explore_log.fingerprint()

    def test_a_control_costs_no_row(self, explore_log: RunLog, design: Design):
        log = every_second(explore_log, "train_acc")
        prepared = prepare(log, design)
        assert [entry.name for entry in prepared.entries][-2:] == ["clock", "constant"]
        assert prepared.log.table.num_rows == explore_log.table.num_rows

    def test_a_metric_in_every_second_row(self, explore_log: RunLog, design: Design):
        prepared = prepare(every_second(explore_log, "test_acc"), design.replace(w_event=60))
        needed = "test_acc and embedding_norm and embedding_gini and embedding_rank and train_acc"
        note = f"Kept are the 1830 of 3630 rows in which {needed} have a value."
        assert prepared.left_out == (note,)
        assert prepared.completed.cadence == 20
        assert note in prepared.notes

    def test_rows_count_whose_metric_no_event_reads(self, explore_log: RunLog, design: Design):
        log = every_second(explore_log, "test_acc")
        regime = design.replace(event_type="E_regime", regime_radius=20)
        assert prepare(log, regime).log is log

    def test_uneven_gaps_are_left_to_what_reads_them(self, explore_log: RunLog, design: Design):
        log = every_second(explore_log, "test_acc", rows=[0, 1, 3])
        assert prepare(log, design).log is log
        with pytest.raises(InputError, match="metric 'test_acc' is NaN"):
            make_lock(design, log)


def every_second(log: RunLog, column: str, *, rows: Sequence[int] = (0, 2)) -> RunLog:
    """The log with a column that has a value in some of every four rows only."""
    table = log.table
    place = table.column_names.index(column)
    steps = np.asarray(table["step"]) // 10 % 4
    values = np.where(np.isin(steps, rows), np.asarray(table[column]), np.nan)
    cells = pa.array(values, mask=np.isnan(values))
    return RunLog.from_table(table.set_column(place, column, cells), metadata=log.metadata)


class TestAvailable:
    def test_whatever_the_log_can_feed_but_the_controls(self, explore_log: RunLog):
        found = {item["name"] for item in available_candidates(explore_log)}
        elsewhere = {
            "correction_rate",
            "crucible_margin_q10",
            "crucible_train_margin_q10",
            "prefix_matching",
            "previous_token",
            "self_consistency_disagreement",
        }
        looped = {name for name in names() if get(name).family == "hierarchical_convergence"}
        published = {name for name in names() if get(name).published}
        assert found == set(names()) - {*CONTROLS, *elsewhere, *looped, *published}

    def test_signals_of_the_survey_where_such_were_recorded(self, explore_log: RunLog):
        told = {"config": {"training": {"observables": "published"}}}
        log = RunLog.from_table(explore_log.table, metadata={**explore_log.metadata, **told})
        found = {item["name"] for item in available_candidates(log)}
        own = {item["name"] for item in available_candidates(explore_log)}
        assert found > own
        assert {get(name).published for name in found - own} == {True}
        assert "weight_norm" in found - own
        assert "tail_exponent" not in found  # whose column this log lacks

    def test_corrupted_labels_feed_one_more(self):
        log = synthetic_runlog(2, corrupted=True)
        found = {item["name"] for item in available_candidates(log)}
        assert "correction_rate" in found

    def test_a_bare_log_feeds_little(self):
        log = RunLog.from_table(synthetic_runlog(2).table.select(["run", "step", "test_acc"]))
        assert [item["name"] for item in available_candidates(log)] == ["test_accuracy"]

    def test_windows_fit_the_cadence(self):
        found = {
            item["name"]: item for item in available_candidates(synthetic_runlog(2, cadence=30))
        }
        assert found["csd_variance"]["params"]["window"] % 30 == 0
        assert Candidate.parse(found["csd_variance"], where="test").name == "csd_variance"


class TestMembers:
    def test_windows_times_smoothing(self, explore_log: RunLog, design: Design):
        entry = entries_of(design, explore_log)[0]
        smoothed = design.replace(smoothing_sweep=[1, 3, 5])
        assert list(family_members(entry, smoothed)) == [
            ("central", None, 1),
            ("smooth=3", None, 3),
            ("smooth=5", None, 5),
            ("window=50,smooth=1", 50, 1),
            ("window=50,smooth=3", 50, 3),
            ("window=50,smooth=5", 50, 5),
            ("window=150,smooth=1", 150, 1),
            ("window=150,smooth=3", 150, 3),
            ("window=150,smooth=5", 150, 5),
        ]

    def test_no_window_no_sweep(self, explore_log: RunLog, design: Design):
        entry = entries_of(design, explore_log)[1]
        assert [key for key, _, _ in family_members(entry, design)] == ["central", "smooth=3"]

    def test_the_raw_series_is_a_member_even_where_the_sweep_leaves_it_out(
        self, explore_log: RunLog, design: Design
    ):
        entry = entries_of(design, explore_log)[0]
        keys = [key for key, _, _ in family_members(entry, design.replace(smoothing_sweep=[3]))]
        assert keys[:2] == ["central", "smooth=3"]
        assert "window=50,smooth=1" in keys


def centred_mean(seen):
    """A plausible mistake: smoothing that looks one checkpoint ahead."""
    values = seen["test_loss"]
    ahead = np.concatenate([values[:, 1:], values[:, -1:]], axis=1)
    return np.where(np.isnan(ahead), values, (values + ahead) / 2)


def standardised(seen):
    """A plausible mistake: each run divided by its own largest value, the future's included."""
    values = seen["weight_norm"]
    return values / np.nanmax(values, axis=1, keepdims=True)


def planted(function) -> Entry:
    return Entry(
        dataclasses.replace(
            get("clock"),
            name=function.__name__,
            family="dynamics",
            function=function,
        )
    )


class TestNonCausal:
    @pytest.mark.parametrize("function", [centred_mean, standardised])
    @pytest.mark.parametrize("ragged", [False, True])
    def test_a_planted_mistake_is_found(self, function, ragged: bool):
        log = synthetic_runlog(6, ragged=ragged)
        honest = Entry(get("embedding_norm_drop"))
        assert non_causal([planted(function), honest], log) == (function.__name__,)

    def test_every_registered_indicator_passes(self):
        log = synthetic_runlog(4, 61, corrupted=True, bundles=True, published=True)
        assert non_causal([Entry(get(name)) for name in names()], log) == ()

    def test_a_column_that_is_empty_before_its_window_is_full(self):
        log = synthetic_runlog(4, 61)
        rolling = [None if step < 200 else step / 2 for step in log.table["step"].to_pylist()]
        table = log.table.append_column("rolling", pa.array(rolling))
        log = RunLog.from_table(table)
        entry = resolve(candidate("rolling"), log)
        assert non_causal([entry, planted(standardised)], log) == ("standardised",)

    def test_runs_that_begin_late_or_are_short(self):
        early, late = synthetic_runlog(2, 31), synthetic_runlog(2, 31, first_seed=7)
        moved = late.table.set_column(
            late.table.column_names.index("step"),
            "step",
            [np.asarray(late.table["step"]) + 5000],
        )
        short = synthetic_runlog(1, 3, first_seed=20)
        log = RunLog.concat([early, RunLog.from_table(moved), short])
        entries = [planted(standardised), Entry(get("test_loss_drop")), Entry(get("clock"))]
        assert non_causal(entries, log) == ("standardised",)


def test_an_entry_is_an_indicator_with_a_sign():
    entry = Entry(get("csd_variance"), -1, {"window": 120})
    assert isinstance(entry.indicator, Indicator)
    assert entry.windows(Design.minimal(horizon=1, safe_gap=2, window_sweep=[50, 60])) == (50, 60)


def test_what_is_said_of_runs_that_begin_late_and_of_percent():
    log = synthetic_runlog(4)
    frame = log.to_pandas()
    late = frame[frame["run"].isin(log.runs[:2]) | (frame["step"] >= 300)]
    fields = {"metric": "test_acc", "horizon": 100, "safe_gap": 200}
    candidates = [{"name": "weight_norm", "family": "dynamics"}]
    design = Design.minimal(**fields, candidates=candidates)
    (note,) = prepare(RunLog.read(late), design).notes
    assert note.startswith(
        "2 of 4 runs begin late, at step 300, where other runs have begun by step 0: seed_2, seed_3"
    )
    percent = frame.assign(test_acc=100 * frame["test_acc"])
    (note,) = prepare(RunLog.read(percent), design).notes
    assert "as an accuracy in percent does, and jump_threshold 0.15 is a share of 1" in note
    lock, _ = make_lock(
        Design.minimal(**fields, candidates=candidates, undeclared=list(PARTS)),
        synthetic_runlog(40),
    )
    begun = frame[frame["step"] >= 300]
    notes = prepare(RunLog.read(begun), lock).notes
    said = "4 of 4 runs begin late, at step 300, where the explore runs have begun by step 0"
    assert any(note.startswith(said) for note in notes)
