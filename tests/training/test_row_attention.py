"""Attention, loss and picking of the rows' forward: gradients by hand, against autograd."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from gmb_hf.training.blocks import take
from gmb_hf.training.rows import attend_in_rows, attend_visible, target_loss, target_results


def random(*shape):
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def by_definition(query, key_value, heads, visible):
    """Softmax attention written out, [..., q, d]."""
    keys, values = key_value.chunk(2, dim=-1)
    parts = []
    for q, k, v in zip(*(x.chunk(heads, dim=-1) for x in (query, keys, values)), strict=True):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        parts.append(scores.masked_fill(~visible, -math.inf).softmax(-1) @ v)
    return torch.cat(parts, dim=-1)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("queries", [1, 2, 4])
def test_rows_attend_to_their_own_keys(queries, heads):
    query, key_value = random(2, 3, queries, 6), random(2, 3, 4, 12)
    visible = torch.ones(queries, 4, dtype=torch.bool).tril(4 - queries)
    found = attend_in_rows(query, key_value, heads)
    torch.testing.assert_close(found, by_definition(query, key_value, heads, visible))
    assert gradcheck(lambda q, kv: attend_in_rows(q, kv, heads), (query, key_value))


def test_scores_that_lie_far_apart_stay_finite():
    query, key_value = 100 * random(1, 2, 3, 4), 100 * random(1, 2, 3, 8)
    mixed = attend_in_rows(query.float(), key_value.float(), 2)
    assert mixed.isfinite().all()


@pytest.mark.parametrize("models", [1, 2])
def test_nodes_attend_to_those_that_they_see(models):
    query, key_value = random(2, 4, 6), random(2, 4, 12)
    visible = torch.eye(4, dtype=torch.bool).repeat(models, 1, 1)
    visible[:, :, 0] = visible[-1, 3, 1] = True
    found = attend_visible(query, key_value, visible, 2)
    torch.testing.assert_close(found, by_definition(query, key_value, 2, visible))


@pytest.mark.parametrize("index", [[[2, 0, 2, 2]], [[2, 0, 2, 2], [1, 1, 0, 1]]])
def test_picked_rows_add_up_their_gradients(index):
    table, index = random(2, 3, 4), torch.tensor(index)
    picked = take(table, index)
    for model in range(2):
        own = index[model] if len(index) > 1 else index[0]
        assert torch.equal(picked[model], table[model, own])
    assert gradcheck(lambda x: take(x, index), (table,))


@pytest.mark.parametrize("models", [1, 2])
def test_the_loss_weighs_every_target(models):
    x, head, bias = random(2, 3, 4), random(2, 5, 4), random(2, 1, 5)
    targets = torch.rand(models, 3, 5, generator=torch.Generator().manual_seed(0)).double()
    losses = target_loss(x, head, bias, targets)
    normed = torch.nn.functional.layer_norm(x, (4,))
    logits = normed @ head.transpose(1, 2) + bias
    expected = -(logits.log_softmax(-1) * targets).sum((1, 2))
    torch.testing.assert_close(losses, expected)
    assert gradcheck(lambda *inputs: target_loss(*inputs, targets), (x, head, bias))


def test_accuracy_counts_targets_that_alone_score_highest():
    x = torch.eye(2, dtype=torch.float64).unsqueeze(0)  # normalised: (1, -1) and (-1, 1)
    head = torch.tensor([[[1.0, -1.0], [3.0, -3.0], [-3.0, 3.0], [-3.0, 3.0]]]).double()
    targets = torch.tensor([[[0.1, 0.5, 0.0, 0.0], [0.0, 0.0, 0.4, 0.0]]]).double()
    # Logits 2, 6, -6, -6 and -2, -6, 6, 6: the second node's best is a tie.
    bias = torch.zeros(1, 1, 4, dtype=torch.float64)
    assert target_results(x, head, bias, targets)[1].tolist() == [0.5]


@pytest.mark.parametrize("models", [1, 2])
def test_results_are_the_loss_without_a_gradient(models):
    x, head, bias = random(2, 3, 4), random(2, 5, 4), random(2, 1, 5)
    targets = torch.rand(models, 3, 5, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        losses, _ = target_results(x, head, bias, targets)
        torch.testing.assert_close(losses, target_loss(x, head, bias, targets))
