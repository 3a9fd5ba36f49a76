"""Blended embeddings by all pairs of operands: the same as by rows, also where terms cancel."""

import pytest
import torch
from training_builders import difference, lively_model, small_config, stacked

from gmb_hf.training import equations
from gmb_hf.training.equations import PairSum

CONFIG = small_config(task={"train_fraction": 0.8}, model={"blend_window": 3})
ALL, NONE = float("inf"), 0.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_pairs_and_rows_give_the_same_loss_and_gradients(dtype, monkeypatch):
    models = {seed: lively_model(CONFIG, seed, dtype) for seed in (0, 3)}
    found = []
    for most in (ALL, NONE):
        monkeypatch.setattr(equations, "MAX_PAIRS", most)
        stack = stacked(CONFIG, models, dtype)
        losses, logits = stack.gradients(keep_logits=True)
        gradients = {name: weight.grad for name, weight in stack.weights.items()}
        found.append({"losses": losses, "logits": logits, **gradients})
    by_pairs, by_rows = found
    for name, expected in by_rows.items():
        assert difference(by_pairs[name], expected) <= (1e-10 if dtype == torch.float64 else 1e-4)


def test_which_way_is_taken_depends_on_shapes_alone():
    stack = stacked(CONFIG, {0: lively_model(CONFIG, 0)})
    assert stack.train.by_pairs  # 20 of 25 pairs
    assert not stack.test.by_pairs  # 5 of them


def test_deviations_are_those_of_the_sums():
    generator = torch.Generator().manual_seed(0)
    terms = PairSum(*torch.randn(2, 3, 7, 16, generator=generator, dtype=torch.float64)).centred()
    sums = terms.first.unsqueeze(1) + terms.second.unsqueeze(2)  # [S, b, a, d]
    expected = (sums.var(-1, correction=0) + 1e-5).rsqrt()
    torch.testing.assert_close(terms.inverse_deviation(), expected, rtol=1e-12, atol=0)


def test_terms_that_cancel_have_finite_deviations_and_gradients():
    first = 100 * torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
    first.requires_grad_()
    found = PairSum(first, -first.detach()).centred().inverse_deviation()
    found.sum().backward()
    assert found.isfinite().all()
    assert first.grad.isfinite().all()
    assert found.max() <= 1e-5**-0.5 * 1.001  # where the sum is zero epsilon is left
