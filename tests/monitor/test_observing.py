"""A model's observables, held against those that the run logs are made of."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from gmb_hf.base.errors import InputError
from gmb_hf.monitor.observe import COLLECTED, LabelledRows, ModelObserver, ModelWeights, Parts
from gmb_hf.training.config import ModelSettings, RunConfig, TaskSettings, TrainingSettings
from gmb_hf.training.observables import Observer
from gmb_hf.training.stacked import SeedStack, task_data

SEED = 5
SHAPES = {
    "untied": {"width": 16, "heads": 2, "mlp_width": 24},
    "tied": {"width": 16, "heads": 2, "mlp_width": 24, "layers": 2, "tied": True},
}


def config_of(shape: dict[str, Any]) -> RunConfig:
    return RunConfig(
        preset="test",
        task=TaskSettings(operation="sub", prime=7),
        model=ModelSettings(**shape),
        training=TrainingSettings(steps=20, checkpoint_every=5, lr=1e-2, compile="never"),
    )


def rows_of(config: RunConfig, split: str) -> dict[str, Any]:
    data = task_data(config.task, SEED)
    index = data.train_index if split == "train" else data.test_index
    return {"input_ids": data.input_ids[index], "labels": data.labels[index]}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def config(request: pytest.FixtureRequest) -> RunConfig:
    return config_of(request.param)


def test_every_observable_is_the_one_of_the_run_logs(config: RunConfig) -> None:
    stack = SeedStack(config, [SEED])
    observer = Observer(stack)
    mine = ModelObserver(
        COLLECTED,
        heldout=rows_of(config, "test"),
        train=rows_of(config, "train"),
        parts=Parts(residues=7),
    )
    for step in range(11):
        losses, logits = stack.gradients(keep_logits=True)
        if step % 5 == 0:
            theirs = observer.measure(losses, logits)
            found = mine.measure(stack.member(0), step)
            # The two are of all pairs of operands: there are none outside the known tasks.
            assert found.keys() == theirs.keys() - {"restricted_loss", "excluded_loss"}
            for name, value in found.items():
                # A second difference of float32 losses keeps few digits.
                rel = 0.05 if name == "curvature" else 2e-4
                assert value == pytest.approx(theirs[name][0], rel=rel, abs=1e-5), (step, name)
        if (step + 1) % 5 == 0:
            mine.remember(stack.member(0))
        stack.update()


def test_waves_of_a_product_are_those_of_the_run_logs() -> None:
    config = config_of(SHAPES["untied"])
    config = config.replace(task=TaskSettings(operation="mul", prime=7))
    stack = SeedStack(config, [SEED])
    losses, logits = stack.gradients(keep_logits=True)
    theirs = Observer(stack).measure(losses, logits)
    names = ["embedding_gini", "unembedding_gini"]
    parts = Parts(residues=7, group="multiplicative")
    found = ModelObserver(names, parts=parts).measure(stack.member(0), 0)
    assert found == {name: pytest.approx(theirs[name][0], rel=1e-5) for name in names}


def test_measuring_leaves_the_training_as_it_was(config: RunConfig) -> None:
    model = SeedStack(config, [SEED]).member(0).train()
    model.model.norm.eval()  # somebody's frozen part stays as it is
    rows = LabelledRows.of(rows_of(config, "train"), where="train")
    model(input_ids=rows.input_ids, labels=rows.labels).loss.backward()
    before = copy.deepcopy(model)
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    random_state = torch.random.get_rng_state()
    observer = ModelObserver(
        COLLECTED,
        heldout=rows_of(config, "test"),
        train=rows_of(config, "train"),
        parts=Parts(residues=7),
    )
    observer.remember(model)
    observer.measure(model, 0)
    assert torch.equal(torch.random.get_rng_state(), random_state)
    for (name, weight), old in zip(model.named_parameters(), before.parameters(), strict=True):
        assert torch.equal(weight, old), name
        assert torch.equal(weight.grad, gradients[name]), name
    assert [module.training for module in model.modules()] == [
        module.training for module in before.modules()
    ]


@pytest.mark.parametrize(
    "model",
    [
        GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16)),
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=40,
                hidden_size=16,
                intermediate_size=24,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
            )
        ),
    ],
    ids=["gpt2", "llama"],
)
def test_other_architectures_by_their_own_names(model: Any) -> None:
    rows = {"input_ids": torch.arange(24).view(3, 8), "labels": torch.arange(24).view(3, 8)}
    observer = ModelObserver(COLLECTED, heldout=rows, train=rows, parts=Parts(residues=11))
    found = observer.measure(model, 0)
    assert found.keys() == {*COLLECTED}
    width = ModelWeights(model, Parts()).mixing.shape[2]
    assert width == 16
    with torch.no_grad():
        loss = float(model.eval()(**rows).loss)
    assert found["test_loss"] == found["train_loss"] == pytest.approx(loss, rel=1e-5)


def test_batches_give_what_all_rows_give(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(SHAPES["untied"])
    model = SeedStack(config, [SEED]).member(0)

    def measured() -> dict[str, float]:
        observer = ModelObserver(
            COLLECTED,
            heldout=rows_of(config, "test"),
            train=rows_of(config, "train"),
            parts=Parts(residues=7),
        )
        return observer.measure(model, 0)

    whole = measured()
    monkeypatch.setattr("gmb_hf.monitor.observe.BATCH_ROWS", 5)
    parted = measured()
    for name, value in whole.items():
        rel = 0.05 if name == "curvature" else 1e-4
        assert parted[name] == pytest.approx(value, rel=rel, abs=1e-6), name


def test_columns_from_elsewhere() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))
    extra = ModelObserver(["judge", "weight_norm"], extra=lambda model, step: {"judge": step / 2})
    assert extra.measure(model, 6)["judge"] == 3
    silent = ModelObserver(["judge"], extra=lambda model, step: {"other": 1.0})
    with pytest.raises(InputError, match=r"extra gave no column 'judge'; gave: other"):
        silent.measure(model, 0)


@pytest.mark.parametrize(
    ("needs", "options", "message"),
    [
        (["prediction_change"], {}, r"read prediction_change, measured on held-out rows: give he"),
        (["curvature"], {}, r"read curvature, measured on training rows: give train=a dataset"),
        (["embedding_gini"], {}, r"give parts=Parts\(residues=P\)"),
        (
            ["judge"],
            {},
            r"extra=a function of \(model, step\), extra=lambda model, step: {.judge.: \.\.\.}",
        ),
        (
            ["test_loss"],
            {"heldout": [{"input_ids": [1, 2]}]},
            r"heldout: column 'labels' missing",
        ),
        (
            ["test_loss"],
            {"heldout": {"input_ids": [[1, 2], [1]], "labels": [[1, 2], [1]]}},
            r"heldout: column 'input_ids' holds no rows of equally many whole numbers; pad",
        ),
        (
            ["test_loss"],
            {"heldout": {"input_ids": [[1, 2]], "labels": [[1]]}},
            r"input_ids are \[1, 2\] and labels \[1, 1\]; give one label for each token",
        ),
        (
            ["test_loss"],
            {"heldout": {"input_ids": [[1, 2]], "labels": [[1, -100]]}},
            r"heldout: no token has a label",
        ),
        (["test_loss"], {"heldout": 7}, r"heldout: give rows with input_ids and labels.*got int"),
        (["test_loss"], {"heldout": []}, r"heldout: column 'input_ids' missing"),
    ],
)
def test_what_cannot_be_measured_is_said_at_the_start(
    needs: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ModelObserver(needs, **options)


def test_names_that_mean_no_weights() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))

    def measured(needs: str, **parts: Any) -> None:
        ModelObserver([needs], parts=Parts(**parts)).measure(model, 0)

    with pytest.raises(InputError, match=r"no weight of this model has a name like 'moe'.*mlp="):
        measured("mlp_norm", mlp="moe")
    with pytest.raises(InputError, match=r"embedding of this model is one matrix, but found: 2 we"):
        measured("embedding_norm", embedding="wte|wpe")
    with pytest.raises(InputError, match=r"residues is 11, but the matrix has 8 rows"):
        measured("embedding_gini", residues=11)
    with pytest.raises(InputError, match=r"attention '\(' is no pattern"):
        Parts(attention="(")
    with pytest.raises(InputError, match=r"residues must be 3 or more, got 2"):
        Parts(residues=2)
    with pytest.raises(InputError, match=r'group must be "additive" or "multi.*, got "dihedral'):
        Parts(residues=7, group="dihedral")
    with pytest.raises(InputError, match=r"multiplicative group must be of a prime, .*residues=8"):
        Parts(residues=8, group="multiplicative")
