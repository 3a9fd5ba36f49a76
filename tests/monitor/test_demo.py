"""`gmb demo`: what a monitor sees of fresh runs is what an evaluation would say of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from live_runs import DESIGN, GAIN, GINI, Evaluated, made_up

from gmb_hf import InputError, Lock, RunLog, make_lock, preset
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.hub import panels
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import Recipe
from gmb_hf.jobs.demo import (
    demo,
    no_more_than_watched,
    trainer_script,
    watch,
    watched_curves,
    watched_table,
)
from gmb_hf.report.style import save_figure
from gmb_hf.training.seeds import system_shown


@pytest.fixture(scope="module")
def judged() -> Evaluated:
    explore, held_out = made_up(60, 0), made_up(40, 300)
    design = DESIGN.replace(health_alpha=0.001, event_count_min=20)
    lock, _ = make_lock(design, explore)
    return Evaluated(lock, evaluate_lock(lock, held_out).results, explore, held_out)


@pytest.mark.parametrize("name", [GINI, GAIN, "settled_structure"])
def test_each_run_is_seen_as_the_evaluation_sees_it(judged: Evaluated, name: str) -> None:
    acting, watched = watch(judged.held_out, judged.lock, judged.results, [name])
    assert acting == (name,)
    assert [one.run for one in watched] == list(judged.held_out.runs)
    said = judged.results.indicator(name).x_first_alarm
    assert said is not None
    assert [one.alarm for one in watched] == list(said.alarm_steps)
    at = said.at(0.05)  # the budget that decides
    outcomes = [one.outcome for one in watched]
    prepared = prepare(judged.held_out, judged.lock)
    entry = next(one for one in prepared.entries if one.name == name)
    assert outcomes == prepared.judgement(entry).first_alarms(0.05).outcomes
    assert outcomes.count("timely") == at.n_timely
    assert outcomes.count("timely") + outcomes.count("early") == at.n_detected


def test_what_was_seen_is_a_table_and_a_figure(judged: Evaluated, tmp_path: Path) -> None:
    _, watched = watch(judged.held_out, judged.lock, judged.results)
    for one in watched:
        if one.outcome in ("timely", "early"):
            assert one.lead is not None
            assert 0 < one.lead < judged.lock.design.safe_gap
        if one.outcome in ("miss", "correct_rejection"):
            assert one.alarm is None
    rows = watched_table(watched).csv().splitlines()
    assert rows[0] == "run,alarm at step,event at step,lead time,outcome"
    assert len(rows) == 1 + len(watched)
    some = judged.held_out.select(judged.held_out.runs[:4])
    figure = watched_curves(some, judged.lock.design.metric, watched[:4])
    assert all(path.stat().st_size for path in save_figure(figure, tmp_path / "watched"))


@pytest.fixture
def panel(judged: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A panel of these runs, and two fresh ones whose training has finished already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(panels.PLACE, "panels")
    about = {"preset": "smoke", "config": preset("smoke").training_identity()}
    parts = {"explore": judged.explore, "heldout": judged.held_out}
    told = {name: replace(log, metadata={**log.metadata, **about}) for name, log in parts.items()}
    seeds = {
        f"seeds_{part}": list(told[name].seeds)
        for part, name in (("explore", "explore"), ("eval", "heldout"))
    }
    design = judged.lock.design.replace(**seeds)
    recipe = Recipe("made", "A question", lambda: preset("smoke"))
    panels.freeze(recipe, told, design, Path("panels/made"), command="by hand")
    fresh = made_up(2, 900)
    fresh.write(Path("demo/fresh/logs/seeds-900-901-n2.parquet"))
    return "made"


def test_a_panel_is_judged_and_fresh_runs_are_watched(panel: str) -> None:
    told: list[str] = []
    found = demo(
        "demo",
        panel=panel,
        seeds="900:902",
        figures=False,
        on_verdicts=lambda results: told.append(results.indicators[0].name),
    )
    assert told
    assert len(found.watched) == 2
    assert GINI in {item.name for item in found.results.indicators}
    shown = Lock.read("demo/made/lock.yaml").x_lock.x_system
    assert shown is not None
    assert shown.plain() == system_shown(preset("smoke"))
    for path in found.paths:
        assert path.is_file()
    assert {path.name for path in found.paths} >= {"watched.csv", "report.md"}
    assert not list(Path("demo").rglob("*.png"))  # figures=False


def test_without_training_a_panel_is_judged(panel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "gmb_hf.training.seeds"):  # it is not needed
        monkeypatch.setitem(sys.modules, name, None)
    found = demo("judged", panel=panel, train=False, figures=False)
    assert GINI in {item.name for item in found.results.indicators}
    assert (found.acting, found.watched) == ((), ())
    assert [path.as_posix() for path in found.paths] == ["judged/made/report.md"]
    assert not Path("judged/fresh").exists()


def test_a_panel_that_does_not_say_what_was_trained(panel: str) -> None:
    with pytest.raises(InputError, match=r"panel 'made1' is unknown; .* Did you mean 'made'"):
        demo("demo", panel="made1")
    bare = Path("panels", "bare")
    log, design = RunLog.read("panels/made/explore.parquet"), FrozenPanel.find(panel).design()
    parts = {
        "explore": replace(log, metadata={}),
        "heldout": RunLog.read("panels/made/heldout.parquet"),
    }
    panels.freeze(
        Recipe("bare", "A question", lambda: preset("smoke")), parts, design, bare, command="x"
    )
    message = "panel 'bare': its logs do not say what was trained; choose another"
    with pytest.raises(InputError, match=message):
        demo("demo", panel="bare", figures=False)


def test_the_script_trains_the_task_of_the_config_under_the_lock(judged: Evaluated) -> None:
    config, lock = preset("quick"), judged.lock
    text = trainer_script(config, lock, "quick-29")
    compile(text, "watch.py", "exec")
    assert max(map(len, text.splitlines())) <= 100
    assert f"lr={config.training.lr}" in text
    assert "weight_decay=decay" in text
    assert f'"hidden_size": {config.model.width},' in text
    assert f'system={{"task": "{lock.design.task}"}}' in text
    assert 'HERE / "quick-29/lock.yaml", HERE / "quick-29/results.yaml"' in text


def test_fresh_runs_are_trained_no_longer_than_they_are_watched(judged: Evaluated) -> None:
    config = preset("smoke")
    training = config.training.replace(stop_after=500, observables="published", checkpoint_every=25)
    config = config.replace(training=training)
    level = {"event_type": "E_plateau", "plateau_threshold": 0.5, "plateau_checkpoints": 5}
    settled = judged.lock.design.model_copy(update=level)
    short = no_more_than_watched(config, settled, [GINI]).training
    assert (short.stop_after, short.stop_at, short.observables) == (100, 0.5, "usual")
    jump = no_more_than_watched(config, judged.lock.design, [GINI]).training
    assert (jump.stop_after, jump.stop_at) == (100, 0.9)  # what a run does up to its event stays
    other = no_more_than_watched(config, settled, ["of_a_plugin"]).training
    assert other.observables == "published"
    assert short.steps == training.steps
