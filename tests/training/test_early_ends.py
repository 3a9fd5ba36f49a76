"""Runs that end once they have generalised: each as alone, however the stack shrinks or stops."""

import numpy as np
import pytest
from training_builders import small_config

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import seeds as training_seeds
from gmb_hf.training.checkpoints import Rows, load_model
from gmb_hf.training.config import TrainingSettings
from gmb_hf.training.folder import log_paths
from gmb_hf.training.seeds import Callbacks, TrainingCallback, train_seeds

SEEDS = tuple(range(8))


def test_a_run_ends_some_steps_after_five_checkpoints_at_nine_tenths():
    training = TrainingSettings(steps=1000, checkpoint_every=10, stop_after=50)
    accuracy = np.zeros((20, 4))
    accuracy[3:8, 0] = 0.9  # five checkpoints, steps 30 to 70
    accuracy[3:7, 1] = 1.0  # four
    accuracy[2:, 2] = 0.95
    accuracy[4, 2] = 0.05  # a spike begins the count anew: 50 to 90
    rows = Rows()
    for step, values in enumerate(accuracy):
        rows.add(10 * step, {"test_acc": values, "train_loss": np.zeros(4)})
    assert rows.ends(training).tolist() == [120, 1000, 140, 1000]
    assert rows.of([2, 0]).ends(training).tolist() == [140, 120]
    assert rows.of([0], until=120).steps == list(range(0, 121, 10))
    assert rows.of([0], until=60).ends(training).tolist() == [1000]
    assert rows.ends(training.replace(stop_after=None)).tolist() == [1000] * 4
    assert rows.ends(training.replace(stop_after=41)).tolist() == [120, 1000, 140, 1000]
    assert rows.ends(training.replace(stop_at=0.94)).tolist() == [1000, 1000, 140, 1000]
    # Near the last step of all a run ends there.
    assert rows.ends(training.replace(steps=110)).tolist() == [110] * 4
    # A run that diverges ends before, whatever comes after it.
    rows.values["train_loss"][5] = np.array([np.nan, 0.0, np.inf, 0.0])
    assert rows.ends(training).tolist() == [40, 1000, 40, 1000]


@pytest.fixture(scope="module")
def config():
    """Memorised and known at once: a run ends by an accuracy of .1."""
    training = {"steps": 80, "lr": 1e-3, "stop_after": 20, "observables": "published"}
    training |= {"stop_at": 0.1}
    return small_config(task={"prime": 7}, training=training)


def test_a_seed_ends_where_it_does_alone_and_shows_the_same(config, tmp_path):
    log = RunLog.read(train_seeds(config, SEEDS, tmp_path / "all", keep=SEEDS))
    lengths = dict(zip(log.runs, log.panel("step").present.sum(1).tolist(), strict=True))
    assert len({*lengths.values()}) > 2, lengths
    assert len(log_paths(tmp_path / "all")) > 1  # the stack was halved
    for seed in (SEEDS[int(np.argmin(list(lengths.values())))], SEEDS[-1]):
        alone = RunLog.read(train_seeds(config, [seed], tmp_path / f"{seed}"))
        run = f"seed_{seed}"
        mine = log.select([run])
        assert mine.panel("step").values.tolist() == alone.panel("step").values.tolist()
        for name in alone.observables:
            found, expected = mine.panel(name).values, alone.panel(name).values
            np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02, err_msg=name)
        kept = RunLog.read(tmp_path / f"all/models/{run}/log.parquet")
        assert kept.panel("step").values.tolist() == alone.panel("step").values.tolist()
        assert load_model(tmp_path / f"all/models/{run}")


def test_an_interrupted_one_goes_on_and_ends_the_same(config, tmp_path, monkeypatch):
    config = config.changed(["training.observables=usual"])
    whole = RunLog.read(train_seeds(config, SEEDS, tmp_path / "whole"))
    monkeypatch.setattr(training_seeds, "SAVE_EVERY_SECONDS", 0.0)
    # It dies at every write of a log: before, and after, which leaves a half beside its whole.
    write = training_seeds.write_log

    def dies(*args, before=[True]):  # noqa: B006
        before[0] = not before[0]
        if not before[0]:
            raise KeyboardInterrupt
        write(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_seeds, "write_log", dies)
    for _ in range(20):
        try:
            train_seeds(config, SEEDS, tmp_path / "again")
        except KeyboardInterrupt:
            continue
        break
    else:
        raise AssertionError("it never ended")
    again = RunLog.read(log_paths(tmp_path / "again"))
    assert again.runs == whole.runs
    assert not [*(tmp_path / "again/state").glob("*")]
    for name in whole.observables:
        found, expected = again.panel(name).values, whole.panel(name).values
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02, err_msg=name)


def test_the_single_engine_ends_there_too(config, tmp_path):
    config = config.changed(["training.observables=usual"])
    stacked = RunLog.read(train_seeds(config, [3], tmp_path / "stacked"))
    single = RunLog.read(train_seeds(config, [3], tmp_path / "single", engine="single"))
    assert single.panel("step").values.tolist() == stacked.panel("step").values.tolist()


def test_what_is_measured_to_the_end_does_not_end_early(config, tmp_path):
    class Own(TrainingCallback):
        pass

    with pytest.raises(InputError, match=r"^training\.stop_after: what is measured here"):
        train_seeds(config, [0], tmp_path / "own", callbacks=Callbacks(begin=Own))
