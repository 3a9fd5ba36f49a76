"""Seeds that draw their own task, shape and rates: by law, from the seed alone, as alone."""

import numpy as np
import pytest
import torch
from training_builders import difference, own_loss, small_config

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.checkpoints import load_model
from gmb_hf.training.config import DrawSettings, RunConfig
from gmb_hf.training.seeds import task_fingerprint, train_seeds
from gmb_hf.training.stacked import SeedStack, stackable

LAW = DrawSettings(
    operation=("add", "sub", "x2_xy_y2"),
    train_fraction=(0.4, 0.6, 0.8),
    activation=("relu", "gelu_new"),
    lr=(1e-4, 0.01),
    weight_decay=(0.1, 10.0),
    initializer_range=(0.02, 0.5),
    no_decay=0.25,
)
RATES = DrawSettings(lr=(1e-4, 1e-2), weight_decay=(0.1, 10.0), initializer_range=(0.02, 0.5))


def drawing(law: DrawSettings, **sections) -> RunConfig:
    plain = small_config(**sections)
    return RunConfig.from_dict({**plain.to_dict(), "draws": law.identity()})


def test_draws_follow_the_law():
    each = [LAW.of_seed(seed) for seed in range(3000)]
    rates = np.log10([one["training"]["lr"] for one in each])
    assert np.quantile(rates, [0.0, 0.5, 1.0]) == pytest.approx([-4, -3, -2], abs=0.1)
    decays = np.array([one["training"]["weight_decay"] for one in each])
    assert np.mean(decays == 0) == pytest.approx(0.25, abs=0.03)
    assert np.median(np.log10(decays[decays > 0])) == pytest.approx(0, abs=0.1)
    scales = [one["model"]["initializer_range"] for one in each]
    assert 0.02 <= min(scales) < max(scales) <= 0.5
    for values, known in (
        ([one["task"]["operation"] for one in each], LAW.operation),
        ([one["task"]["train_fraction"] for one in each], LAW.train_fraction),
        ([one["model"]["activation"] for one in each], LAW.activation),
    ):
        counts = [values.count(value) / len(values) for value in known]
        assert counts == pytest.approx([1 / len(known)] * len(known), abs=0.05)
    # No draw follows another.
    assert abs(np.corrcoef(rates, scales)[0, 1]) < 0.06


def test_pairs_stay_together_where_the_drawn_operation_has_pairs():
    config = drawing(LAW, task={"operation": "add", "keep_pairs_together": True})
    tasks = [config.of_seed(seed).task for seed in range(40)]
    together = {task.operation: task.keep_pairs_together for task in tasks}
    assert together == {"add": True, "sub": False, "x2_xy_y2": True}
    assert task_fingerprint(config) == task_fingerprint(drawing(LAW))  # the same rows in all


def test_a_draw_is_of_the_seed_alone_and_of_no_other_draw():
    whole, part = drawing(LAW), drawing(DrawSettings(lr=LAW.lr))
    assert whole.of_seed(7) == whole.of_seed(7)
    assert whole.of_seed(7).training.lr == part.of_seed(7).training.lr
    assert not whole.of_seed(7).draws.any
    assert whole.of_seed(7).of_seed(3) == whole.of_seed(7)
    plain = small_config()
    assert plain.of_seed(7) is plain
    assert "draws" not in plain.training_identity()
    assert whole.training_hash() != part.training_hash() != plain.training_hash()
    assert RunConfig.from_dict(whole.to_dict()) == whole
    assert plain.changed(["draws.lr=1e-4,1e-2"]).draws == part.draws


def test_rates_of_its_own_train_each_model_as_torch_does():
    config, seeds = drawing(RATES, model={"layers": 2}, training={"eps": 1e-6}), (5, 0, 9)
    stack = SeedStack(config, seeds, dtype=torch.float64)
    models = [stack.member(index).double() for index in range(len(seeds))]
    optimizers = []
    for seed, model in zip(seeds, models, strict=True):
        own = config.of_seed(seed).training
        numbers = {"lr": own.lr, "weight_decay": own.weight_decay}
        optimizers.append(
            torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-6, **numbers)
        )
    for _ in range(5):
        before = {name: weight.detach().clone() for name, weight in stack.weights.items()}
        stack.gradients()
        stack.update()
        for name, update in stack.last_updates().items():
            assert difference(update, stack.weights[name] - before[name]) <= 1e-9, name
        for seed, model, optimizer in zip(seeds, models, optimizers, strict=True):
            optimizer.zero_grad()
            own_loss(model, config, seed)[0].backward()
            optimizer.step()
    for index, model in enumerate(models):
        for name, parameter in model.named_parameters():
            assert difference(stack.weights[name][index], parameter) <= 1e-9, name
    part = stack.some([2, 0])
    assert torch.equal(part.optimizer.param_groups[0]["lr"][0], stack._rates[0][2])
    assert part.member(0).config.initializer_range == config.of_seed(9).model.initializer_range


def test_a_seed_that_diverges_with_what_it_drew_ends_there(tmp_path):
    law = DrawSettings(lr=(1e-3, 1e30))
    config = drawing(law, task={"prime": 7}, training={"steps": 20, "checkpoint_every": 5})
    rates = {seed: config.of_seed(seed).training.lr for seed in range(100)}
    calm = next(seed for seed, rate in rates.items() if rate < 0.1)
    diverged = [seed for seed, rate in rates.items() if rate > 1e20][:2]
    log = RunLog.read(train_seeds(config, [*diverged, calm], tmp_path / "together"))
    last = {seed: log.select([f"seed_{seed}"]).panel("step").steps[0][-1] for seed in log.seeds}
    assert last == {diverged[0]: 0, diverged[1]: 0, calm: 20}
    for name in log.observables:
        assert np.isfinite(log.table[name]).all(), name
    for engine in ("stacked", "single"):
        alone = [diverged[0], calm]
        folder = tmp_path / engine
        each = RunLog.read(train_seeds(config, alone, folder, engine=engine, jobs=1))
        for run in each.runs:
            own, of_all = each.select([run]), log.select([run])
            assert own.panel("step").steps[0].tolist() == of_all.panel("step").steps[0].tolist()
            losses = [one.panel("train_loss").values for one in (own, of_all)]
            np.testing.assert_allclose(*losses, rtol=1e-3)


def test_a_folder_of_draws_has_the_runs_that_each_seed_is_alone(tmp_path):
    config = drawing(LAW, task={"prime": 7}, training={"steps": 10, "observables": "published"})
    seeds = range(5)
    assert len(stackable(config, seeds)) > 2
    log = RunLog.read(train_seeds(config, seeds, tmp_path / "drawn", keep=[3]))
    assert log.seeds == tuple(seeds)
    of_operation = {config.of_seed(seed).task.operation: seed for seed in seeds}
    assert len(of_operation) > 1  # of which each has its own waves, and its own mirror images
    for seed in {0, 3, *of_operation.values()}:
        own = config.of_seed(seed)
        alone = RunLog.read(train_seeds(own, [seed], tmp_path / f"{seed}"))
        drawn = log.select([f"seed_{seed}"])
        rows = drawn.table.num_rows
        has = {name for name in drawn.observables if drawn.table[name].null_count < rows}
        assert {name for name in has if "drawn" not in name} == {*alone.observables}
        names = {"train_loss", "test_loss", "compressed_length", "restricted_loss"}
        for name in sorted(names & {*alone.observables}):
            together = drawn.panel(name).values[0]
            expected = alone.panel(name).values[0]
            np.testing.assert_allclose(together, expected, rtol=0.02, err_msg=name)
        row = {name: log.panel(name).values[seed] for name in log.observables if "drawn" in name}
        assert (row["drawn_lr"] == own.training.lr).all()
        assert (row["drawn_weight_decay"] == own.training.weight_decay).all()
        assert (row["drawn_no_decay"] == (own.training.weight_decay == 0)).all()
        assert (row["drawn_operation"] == LAW.operation.index(own.task.operation)).all()
    scale = config.of_seed(3).model.initializer_range
    assert load_model(tmp_path / "drawn/models/seed_3").config.initializer_range == scale
    said = log.metadata
    assert said["task"].endswith(
        "; each seed draws operation (add, sub, x2_xy_y2), train_fraction (0.4, 0.6, 0.8)"
    )
    assert said["model"].endswith(
        "; each seed draws activation (relu, gelu_new), initializer_range (0.02 to 0.5)"
    )
    assert said["optimizer"].endswith(
        "; each seed draws lr (0.0001 to 0.01), weight_decay (0.1 to 10.0), "
        "no decay in 25% of seeds"
    )
    assert said["system"].keys() == {"architecture", "parameter_count", "optimizer"}
    # Nothing is left to do, and another law is another folder.
    assert train_seeds(config, seeds, tmp_path / "drawn")
    with pytest.raises(InputError, match="holds runs of another config"):
        train_seeds(drawing(RATES), seeds, tmp_path / "drawn")


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["draws.lr=1"], "draws.lr: give the lowest and the highest, both above 0, e.g. 0.1,1"),
        (["draws.lr=3,1"], "draws.lr: give the lowest and the highest"),
        (["draws.weight_decay=0,1"], "draws.weight_decay: give the lowest and the highest"),
        (["draws.operation=add,sum"], "draws.operation[1]: operation 'sum' is"),
        (["draws.train_fraction=.5,2"], "draws.train_fraction[1] must be less than 1, got 2.0"),
        (["draws.activation=tanh"], "draws.activation[0]: activation 'tanh'"),
        (["draws.no_decay=2"], "draws.no_decay"),
        (["task.name=reverse_8", "draws.operation=add"], "draws.operation: task.name=reverse_8"),
    ],
)
def test_what_cannot_be_drawn_is_refused(assignments, message):
    with pytest.raises(InputError) as refused:
        small_config().changed(assignments)
    assert str(refused.value).startswith(f"--set: {message}"), str(refused.value)


@pytest.mark.parametrize("value", ["fast", [["a"], 1], [True, "x"]])
def test_a_range_that_is_none_is_refused(value):
    with pytest.raises(InputError, match=r"draws\.lr(\[0\])? must be a (list|number), got"):
        RunConfig.from_dict({"draws": {"lr": value}})
