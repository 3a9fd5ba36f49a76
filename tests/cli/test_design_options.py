"""The options of a design on every command that takes one: `--help`, `--help-all` and `--set`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import DESIGN, SMOKE, gmb, refused

from gmb_hf import Results

TAKE_A_DESIGN = ("evaluate", "explore", "lock", "plan", "run", ("runs", "verify"))
OPTION = re.compile(r"^  (?:-\w, |--\w+, )?(--[\w-]+)", re.MULTILINE)


def words_of(command: str | tuple[str, ...]) -> tuple[str, ...]:
    return (command,) if isinstance(command, str) else command


class TestHelp:
    @pytest.mark.parametrize("command", TAKE_A_DESIGN)
    def test_shows_what_people_use_and_all_on_request(self, command: str | tuple[str, ...]):
        few = OPTION.findall(gmb(*words_of(command), "--help").out)
        every = OPTION.findall(gmb(*words_of(command), "--help-all").out)
        assert len(few) <= 22
        assert {"--event", "--metric", "--set", "--help-all"} <= {*few}
        assert {*few} < {*every}
        assert "--regime-quantile" not in few
        assert {"--quantile", "--radius", "--floor"} <= {*every} - {*few}

    def test_of_evaluate_is_two_dozen_lines(self):
        assert len(OPTION.findall(gmb("evaluate", "--help").out)) <= 16

    def test_kinds_and_defaults_are_words(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", "100")
        text = " ".join(gmb("evaluate", "--help-all").out.split())
        assert not re.search(r"<\w+|list\[|\(50\)|RANGE|INTEGER|TEXT", text)
        assert "--horizon steps " in text
        assert "--window steps Steps over which it jumps; a multiple of the cadence." in text
        assert "[default: 50 steps]" in text
        assert "--run-budget share " in text
        assert "--fpr share,... Target rates. [default: 0.01,0.05,0.1]" in text
        assert "[default: a quarter of the horizon]" in text
        assert "--out folder Folder for the results. [default: results]" in text

    def test_a_command_of_few_options_shows_them_all(self):
        assert "--help-all" not in gmb("panel", "push", "--help").out
        assert gmb("panel", "push", "--help-all").out == gmb("panel", "push", "--help").out


class TestSet:
    """Every field of the design by its name, or by its place in the YAML document."""

    def test_says_what_the_options_say(self, csv_logs: Path):
        judging = ("evaluate", "--runs", csv_logs, "--score=train_acc", "--no-test-labels", *DESIGN)
        assert gmb(*judging, "--jump=.3", "--fpr=.05,.1", "--falling", "--out=a").code == 0
        said = (
            *("--set", "jump_threshold=.3", "--set", "operating_points.fpr_targets=.05, .1"),
            *("--set", "event.x_direction=falling", "--out=b"),
        )
        others = [word for word in judging if word != "--jump=0.2"]
        assert gmb(*others, *said).code == 0
        a, b = (Results.read(f"{folder}/results.yaml") for folder in "ab")
        assert a.design == b.design
        assert a.indicators == b.indicators

    def test_on_logs_whose_events_are_looked_at(self, csv_logs: Path):
        looking = ("runs", "verify", "--runs", csv_logs, "--metric=test_acc")
        typed = ("--set", "event.type=E_plateau", "--set", "plateau_threshold=.9")
        done = gmb(*looking, *typed, "--set", "event.x_plateau_checkpoints=5")
        assert done.code == 0, done
        assert "5 consecutive checkpoints with test_acc at or above 0.9" in done.out
        assert "--set event.type=E_plateau --set plateau_threshold=.9" in done.next_command

    @pytest.mark.parametrize("command", TAKE_A_DESIGN)
    def test_a_misspelled_field(self, command: str | tuple[str, ...], small_csv: Path):
        words = words_of(command)
        words += ("--out=x",) if command in ("run", "lock", "evaluate") else ()
        words += () if command in ("plan", "run") else ("--runs", str(small_csv))
        message = refused(*words, "--set", "jump_treshold=5")
        assert "--set jump_treshold=5: field of a design 'jump_treshold' is unknown" in message
        assert message.endswith("Did you mean 'jump_threshold'?")

    @pytest.mark.parametrize(
        ("typed", "message"),
        [
            ("burn_in", "--set 'burn_in': write it as field=value, e.g. horizon=200"),
            ("burn_in=soon", "--set burn_in=soon: expected a whole number, got 'soon'"),
            ("burn_in=-1", "--set burn_in must be greater than or equal to 0, got -1"),
            ("fpr_targets=1,2", "--set fpr_targets must be a number in (0, 1), got 1.0"),
            ("x_nan=no", "--set x_nan: value 'no' is unknown"),
            ("report_all_failures=no", "value 'no' is unknown; known: true."),
            ("require_new_max=7", "--set require_new_max=7: expected true or false, got '7'"),
            ("seeds_eval=a", "--set seeds_eval=a: write whole numbers with commas"),
            ("regime_radius=20", "--set regime_radius belongs to E_regime; leave it out with"),
            (
                "labels.positive_window.horizon_steps=5",
                "--horizon and --set labels.positive_window.horizon_steps say the same field",
            ),
            ("protocol=v0.4", "--protocol and --set protocol say the same field; leave one"),
            ("candidates=[{name: x}]", "--score and --set candidates say the same field"),
        ],
    )
    def test_one_line_in_what_was_typed(self, small_csv: Path, typed: str, message: str):
        judging = ("evaluate", "--runs", small_csv, "--score=embedding_gini", "--protocol=strict")
        fixed = [word for word in DESIGN if not word.startswith("--burn-in")]
        assert message in refused(*judging, *fixed, "--set", typed)

    def test_twice(self, small_csv: Path):
        twice = ("--set=burn_in=5", "--set=x_burn_in=6")
        message = refused("evaluate", "--runs", small_csv, "--score=embedding_gini", *twice)
        assert "--set burn_in and --set x_burn_in say the same field" in message

    def test_beside_a_lock(self, chain: Path):
        judging = ("evaluate", "--lock", chain / "lock.yaml", "--runs", chain / "explore.csv")
        message = refused(*judging, "--set", "horizon=5")
        assert "--lock fixes the design; leave out --set horizon" in message

    def test_beside_the_config_of_a_run(self):
        both = ("--set=benchmark.horizon=300", "--horizon=200")
        message = refused(*SMOKE, "--out=x", *both)
        assert "--horizon and --set benchmark.horizon say the same field" in message
        assert "training.lr=fast: expected a number" in refused(
            *SMOKE, "--out=x", "--set=training.lr=fast"
        )
        assert "horizon must be greater than" in refused(*SMOKE, "--out=x", "--set=horizon=0")
