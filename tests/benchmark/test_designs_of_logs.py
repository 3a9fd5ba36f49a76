"""Which design a command means, and which runs it may look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, InputError, RunLog, preset
from gmb_hf.benchmark.prepare import available_candidates, boundary_of, statements_of, with_boundary
from gmb_hf.hub.sources import design_for, part_of
from gmb_hf.training.config import RunConfig
from gmb_hf.training.presets import design_of


def described(log: RunLog, **metadata: object) -> RunLog:
    return RunLog.from_table(log.table, metadata=metadata)


def trained_for(config: RunConfig, log: RunLog) -> RunLog:
    """The log with the metadata that matter here, as `gmb train` writes them."""
    return described(log, preset=config.preset, design=config.design())


class TestParts:
    @pytest.fixture
    def both(self, explore_log: RunLog, held_out_log: RunLog) -> RunLog:
        return RunLog.concat([explore_log, held_out_log])

    def test_declared_seeds_are_taken_and_the_others_set_aside(self, both: RunLog, design: Design):
        chosen = design.replace(seeds_explore=list(range(30)), seeds_eval=list(range(100, 140)))
        explored, aside = part_of(both, chosen, "explore")
        assert (set(explored.seeds), aside) == (set(range(30)), 40)
        judged, aside = part_of(both, chosen, "held-out")
        assert (set(judged.seeds), aside) == (set(range(100, 140)), 30)

    def test_one_side_declared_leaves_the_rest_to_the_other(self, both: RunLog, design: Design):
        chosen = design.replace(seeds_eval=list(range(100, 140)))
        explored, aside = part_of(both, chosen, "explore")
        assert (len(explored.runs), aside) == (30, 40)

    def test_nothing_declared_takes_everything(self, both: RunLog, design: Design):
        for part in ("explore", "held-out"):
            found, aside = part_of(both, design, part)
            assert found is both
            assert aside == 0

    def test_runs_without_a_seed_are_never_a_declared_one(self, design: Design):
        log = synthetic_runlog(1, 5)
        table = log.table.drop_columns(["seed"]).set_column(0, "run", [["anon"] * 5])
        nameless = RunLog.from_table(table)
        with pytest.raises(InputError, match="none of the 1 runs is a declared held-out run"):
            part_of(nameless, design.replace(seeds_eval=[0]), "held-out")
        assert part_of(nameless, design.replace(seeds_eval=[0]), "explore")[1] == 0

    @pytest.mark.parametrize(
        ("part", "key"), [("explore", "seeds_explore"), ("held-out", "seeds_eval")]
    )
    def test_none_of_them(self, explore_log: RunLog, design: Design, part: str, key: str):
        with pytest.raises(InputError, match=rf"declared .* run \(boundary\.{key}\); check --runs"):
            part_of(explore_log, design.replace(**{key: [777]}), part)


class TestDesignFor:
    def test_a_preregistration(self, tmp_path: Path, explore_log: RunLog, design: Design):
        path = design.write(tmp_path / "p.yaml")
        assert design_for(explore_log, path, None) == design

    def test_a_preset_judges_every_score_that_the_log_can_feed(self, explore_log: RunLog):
        found = [item.name for item in design_of(preset("smoke"), explore_log).candidates]
        assert found == [item["name"] for item in available_candidates(explore_log)]
        assert len(found) > 30

    def test_a_preset_by_name(self, explore_log: RunLog):
        design = design_for(explore_log, None, "quick")
        assert design.horizon == preset("quick").benchmark.design().horizon
        assert len(design.seeds_explore) == 32

    def test_the_design_that_the_log_was_trained_for(self, explore_log: RunLog):
        config = preset("quick").changed(["benchmark.horizon=70", "seeds.explore=0:5"])
        design = design_for(trained_for(config, explore_log), None, None)
        assert design.horizon == 70
        assert design.seeds_explore == (0, 1, 2, 3, 4)
        assert design == design_of(config, explore_log)

    def test_it_survives_the_file(self, tmp_path: Path, explore_log: RunLog):
        config = preset("quick").changed(["benchmark.horizon=70"])
        path = trained_for(config, explore_log).write(tmp_path / "log.parquet")
        assert design_for(RunLog.read(path), None, None) == design_of(config, explore_log)

    def test_parts_trained_for_different_designs(self, explore_log: RunLog, held_out_log: RunLog):
        one = trained_for(preset("quick"), explore_log)
        two = trained_for(preset("quick").changed(["benchmark.horizon=70"]), held_out_log)
        with pytest.raises(
            InputError, match=r"different ones \(design\.benchmark\.horizon\); pass"
        ):
            design_for(RunLog.concat([one, two]), None, None)
        assert design_for(RunLog.concat([one, two]), None, "quick").horizon

    def test_somebodys_log(self, explore_log: RunLog):
        with pytest.raises(InputError, match="no design; pass --prereg FILE"):
            design_for(explore_log, None, None)

    def test_two_designs(self, explore_log: RunLog):
        with pytest.raises(InputError, match="--prereg and --preset are two designs"):
            design_for(explore_log, "p.yaml", "quick")


class TestBoundary:
    def test_of_a_preset(self, explore_log: RunLog):
        about = {"task": "sub_p29", "model": "transformer-1x4x32", "checkpoint_every_steps": 10}
        design = design_of(preset("quick"), described(explore_log, **about))
        assert design.task == "sub_p29"
        assert design.cadence == 10
        assert not set(design.seeds_explore) & set(design.seeds_eval)
        assert {"clock", "constant"}.isdisjoint(item.name for item in design.candidates)
        assert all(item.x_sees_test_labels is not None for item in design.candidates)

    def test_metadata_of_another_shape_say_nothing(self, explore_log: RunLog):
        log = described(explore_log, task={"name": "x"}, model=3, checkpoint_every_steps="10")
        assert boundary_of(log) == {}

    def test_where_the_parts_disagree(self, explore_log: RunLog, held_out_log: RunLog):
        parts = [
            described(explore_log, task="t", model="m"),
            described(held_out_log, task="u", model="m"),
        ]
        log = RunLog.concat(parts)
        assert boundary_of(log) == {"model": "m"}
        assert statements_of(log) == {"task": ["t", "u"], "model": ["m"]}

    def test_what_is_open_is_filled_in(self, explore_log: RunLog, design: Design):
        filled = with_boundary(design, described(explore_log, task="t", model="m"))
        assert (filled.task, filled.model) == ("t", "m")
        assert filled.cadence == 10
        assert filled.replace(task=None, model=None, cadence=None) == design

    def test_what_is_stated_stays(self, explore_log: RunLog, design: Design):
        stated = design.replace(task="mine", cadence=20)
        filled = with_boundary(stated, described(explore_log, task="theirs"))
        assert filled.task == "mine"
        assert filled.cadence == 20
