"""Cosines of hidden states: by hand, one by one, and against the model's own forward."""

from __future__ import annotations

import torch
from training_builders import lively_model, small_config, stacked

from gmb_hf.training.observables import cosines, model_hidden
from gmb_hf.training.stacked import task_data


def test_cosines_by_hand():
    hidden = torch.tensor([[[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]])
    found = cosines(hidden, torch.tensor([[0]]), torch.tensor([[[0, 1, 2, 3, 4]]]))
    torch.testing.assert_close(found, torch.tensor([[[1.0, 0.0, -1.0, 0.5**0.5, 0.0]]]))


def test_cosines_of_many_seeds_are_those_of_a_loop():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 11, 4, generator=generator, dtype=torch.float64)
    anchors = torch.randint(11, (3, 6), generator=generator)
    candidates = torch.randint(11, (3, 6, 5), generator=generator)
    found = cosines(hidden, anchors, candidates)
    for seed in range(3):
        for item in range(6):
            for place in range(5):
                one, other = (
                    hidden[seed, anchors[seed, item]],
                    hidden[seed, candidates[seed, item, place]],
                )
                expected = (one @ other) / (one.norm() * other.norm())
                torch.testing.assert_close(found[seed, item, place], expected)


def test_stacked_states_are_those_of_each_model_by_itself():
    config = small_config(model={"layers": 2})
    models = {seed: lively_model(config, seed) for seed in (3, 5)}
    stack = stacked(config, models)
    found = stack.test.logits(stack.weights)[1]
    for place, (seed, model) in enumerate(models.items()):
        data = task_data(config.task, seed)
        rows = torch.from_numpy(data.input_ids[data.test_index])
        expected = model_hidden(model, rows, data.answer_positions[0])
        torch.testing.assert_close(found[place], expected, rtol=1e-9, atol=1e-9)
        whole = model.model(input_ids=rows).last_hidden_state[:, 4]
        torch.testing.assert_close(expected, whole.detach(), rtol=1e-9, atol=1e-9)
