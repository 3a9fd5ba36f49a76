"""A mixer that the short forward for equations does not know is never trained as if it were not."""

import dataclasses

import numpy as np
import pytest
import torch

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM, mixers
from gmb_hf.protocol.sequential.config import SuiteSettings
from gmb_hf.protocol.sequential.train import task_queries, task_rows
from gmb_hf.training import stacked
from gmb_hf.training.presets import preset


class Recency(mixers.Mixer):
    """Each state moves towards those of its window, the nearer the more."""

    name = "recency"

    def start(self):
        return {**super().start(), "rate": torch.tensor(1.0)}

    def average(self, hidden, weights, within):
        scores = -weights["rate"] * mixers.distances(hidden)
        return scores.masked_fill(~within, -torch.inf).softmax(dim=-1)


@dataclasses.dataclass
class RecencyConfig(GrokkingTransformerConfig):
    recency_window: int | None = None


@pytest.fixture
def shape(monkeypatch):
    monkeypatch.setattr(mixers, "MIXERS", (*mixers.MIXERS, Recency))
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    return RecencyConfig.grokking(prime=5, vocab_size=12, recency_window=3, **sizes)


def test_the_sequential_protocol_trains_it_by_the_forward_for_any_rows(shape):
    suite = SuiteSettings(prime=5)
    torch.manual_seed(0)
    model = GrokkingTransformerForCausalLM(shape).double()
    named = dict(model.named_parameters())
    assert "model.layers.1.recency.rate" in named
    weights = {name: value.detach().unsqueeze(0) for name, value in named.items()}
    queries = task_queries(suite, "sub", shape, 1, dtype=torch.float64)
    for value in weights.values():
        value.requires_grad_()
    found = queries.losses(weights)
    found.sum().backward()

    rows = task_rows(suite, suite.data("sub"))
    (position,) = rows.positions
    train = torch.from_numpy(rows.train)
    logits = model(input_ids=train).logits[:, position]
    expected = torch.nn.functional.cross_entropy(logits, train[:, position + 1])
    expected.backward()
    torch.testing.assert_close(found[0], expected, rtol=1e-10, atol=0)
    for name, parameter in named.items():
        torch.testing.assert_close(weights[name].grad[0], parameter.grad, rtol=1e-8, atol=1e-10)
    assert named["model.layers.0.recency.rate"].grad.abs() > 1e-6
    losses, _ = queries.results(weights, held_out=False)
    np.testing.assert_allclose(losses, [expected.item()], rtol=1e-10)


def test_gmb_train_trains_it_by_the_forward_for_any_rows(shape, monkeypatch):
    monkeypatch.setattr(stacked, "model_config", lambda config: shape)
    config = preset("smoke").changed(["task.prime=5", "task.op_token=distinct"])
    trained = stacked.SeedStack(config, [0, 3], dtype=torch.float64)
    losses, _ = trained.gradients()
    for place, seed in enumerate((0, 3)):
        data = stacked.task_data(config.task, seed)
        rows, labels = (
            torch.from_numpy(table[data.train_index]) for table in (data.input_ids, data.labels)
        )
        own = trained.member(place).double()(input_ids=rows, labels=labels).loss
        torch.testing.assert_close(losses[place], own, rtol=1e-10, atol=0)
