"""Observables of looped models: by hand, then one row and one cycle at a time from the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm
from training_builders import EQUALS, equations, lively_model, small_config, stacked

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.runs.metadata import LEVELS
from gmb_hf.training.blocks import Trace
from gmb_hf.training.observables import LOOP_QUANTILES as QUANTILES
from gmb_hf.training.observables import Observer, about_loops, loop_observables
from gmb_hf.training.variants import parse_variant

SEEDS = (3, 8)
SMOOTH = {"layers": 3, "width": 8}


def states(*numbers: float) -> torch.Tensor:
    """One model, rows of width 1: a length is the number itself."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, -1, 1)


def test_by_hand():
    """Two cycles of two steps, two rows; states are numbers, so that lengths are differences."""
    trace = Trace(
        fast=[states(1.0, 1.0), states(1.1, 0.4), states(0.5, 0.4), states(0.545, 0.42)],
        slow=[states(1.0, 1.0), states(0.7, 0.3)],
    )
    logits = [torch.tensor([[0.0, math.log(3)]], dtype=torch.float64)]
    found = {name: float(value) for name, value in loop_observables(trace, logits).items()}
    expected = {
        # r_L of the first cycle is 1, .1 and 1, .6; of the second .6, .045 and 0, .02.
        "fast_update_1_1": 1.0,
        "fast_update_1_2": 0.35,
        "fast_update_2_1": 0.3,
        "fast_update_2_2": 0.0325,
        "slow_update_1": 1.0,
        "slow_update_2": 0.5,
        # First steps at rest within 5%: none and none; 2 and 1.
        "settling_q50_at_5": 2.5,
        "settling_q90_at_5": 3.0,
        # Within 50%: 2 and none; 2 and 1.
        "settling_q50_at_50": 2.0,
        "settling_q90_at_50": 2.7,
        # d of the second cycle: .555 and -.02.
        "reset_share_at_5": 0.5,
        "reset_share_at_50": 0.5,
        "reset_spike": 0.2675,
        # |z_H - z_L|: .1 and .6; .155 and .12.
        "state_distance_q50": 0.1375,
        "state_distance_q90": 0.4665,
        # In one dimension.
        "slow_participation": 1.0,
        "fast_participation": 1.0,
        # Halting at the first cycle with 1/2 and 3/4.
        "halting_steps": 1.375,
        "halting_variance": 0.375 * 0.625,
        "halting_margin": math.log(3) / 2,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_a_step_that_moves_by_a_level_is_at_rest_there():
    trace = Trace(fast=[states(0.5), states(0.0)], slow=[states(0.0)])
    found = loop_observables(trace)
    assert float(found["settling_q50_at_50"]) == 1.0
    assert float(found["settling_q50_at_20"]) == 3.0  # neither step: one more than there are


def test_one_cycle_resets_nothing_and_no_halting_has_no_numbers():
    trace = Trace(fast=[states(1.0, 0.5)] * 2, slow=[states(1.0, 0.0)])
    names = set(loop_observables(trace))
    assert not {name for name in names if name.startswith(("reset", "halting"))}
    assert {"fast_update_1_2", "slow_update_1", "settling_q90_at_10"} <= names


@torch.no_grad()
def by_rows(model, rows):
    """z_L [rows, N, T, d] and z_H [rows, N, d] at EQ, one row at a time through the layers."""
    config, decoder = model.config, model.model
    causal = torch.full((8, 8), -torch.inf, dtype=torch.float64).triu(1)

    def apply(layers, hidden):
        for layer in layers:
            hidden = layer(hidden[None], attention_mask=causal)[0]
        return layer_norm(hidden, hidden.shape[-1:])

    all_fast, all_slow = [], []
    for row in rows:
        embedded = decoder.embed_tokens(row) + decoder.embed_positions.weight
        fast = slow = torch.zeros_like(embedded)
        fasts, slows = [], []
        for _ in range(config.cycles):
            for _ in range(config.inner_steps):
                fast = apply(list(decoder.layers)[:-1], fast + slow + embedded)
                fasts.append(fast[EQUALS].numpy())
            slow = apply([decoder.layers[-1]], fast + slow)
            slows.append(slow[EQUALS].numpy())
        all_fast.append(np.reshape(fasts, (config.cycles, config.inner_steps, -1)))
        all_slow.append(slows)
    return np.array(all_fast), np.array(all_slow)


def participation(samples):
    values = np.linalg.eigvalsh(np.cov(samples.T))
    return values.sum() ** 2 / (values**2).sum()


@pytest.mark.parametrize("variant", ["loops-1x2", "loops-2x3", "loops-3x2-halting"])
def test_against_one_row_and_one_cycle_at_a_time(variant):
    config = small_config(model={**SMOOTH, **parse_variant(variant).fields})
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    measured = Observer(stack).measure(*stack.gradients(keep_logits=True))
    cycles, steps = config.model.cycles, config.model.inner_steps
    for index, (seed, model) in enumerate(models.items()):
        fast, slow = by_rows(model, equations(config, seed, "test")[0])
        found = {name: values[index] for name, values in measured.items()}
        unit = math.sqrt(fast.shape[-1])
        updates = np.zeros(fast.shape[:3])
        for row, cycle, step in np.ndindex(*updates.shape):
            before = (
                fast[row, cycle, step - 1]
                if step
                else (fast[row, cycle - 1, -1] if cycle else np.zeros_like(fast[row, 0, 0]))
            )
            updates[row, cycle, step] = np.linalg.norm(fast[row, cycle, step] - before) / unit
        for cycle in range(cycles):
            before = slow[:, cycle - 1] if cycle else np.zeros_like(slow[:, 0])
            moved = np.linalg.norm(slow[:, cycle] - before, axis=-1).mean() / unit
            assert found[f"slow_update_{cycle + 1}"] == pytest.approx(moved, rel=1e-9)
            for step in range(steps):
                mean = updates[:, cycle, step].mean()
                assert found[f"fast_update_{cycle + 1}_{step + 1}"] == pytest.approx(mean, rel=1e-9)
        for level in LEVELS:
            first = [
                next((j + 1 for j in range(steps) if updates[row, k, j] <= level / 100), steps + 1)
                for row in range(len(updates))
                for k in range(cycles)
            ]
            for q in QUANTILES:
                expected = np.quantile(first, q / 100)
                assert found[f"settling_q{q}_at_{level}"] == pytest.approx(expected)
            if cycles > 1:
                share = np.mean(updates[:, 1:, 0] - updates[:, 1:, -1] >= level / 100)
                assert found[f"reset_share_at_{level}"] == pytest.approx(share)
        if cycles > 1:
            spike = np.median(updates[:, 1:, 0] - updates[:, 1:, -1])
            assert found["reset_spike"] == pytest.approx(spike, rel=1e-9)
        distance = np.linalg.norm(slow - fast[:, :, -1], axis=-1) / unit
        for q in QUANTILES:
            expected = np.quantile(distance, q / 100)
            assert found[f"state_distance_q{q}"] == pytest.approx(expected, rel=1e-9)
        width = fast.shape[-1]
        slow_ratio = participation(slow.reshape(-1, width))
        assert found["slow_participation"] == pytest.approx(slow_ratio, rel=1e-9)
        fast_ratio = participation(fast[:, :, -1].reshape(-1, width))
        assert found["fast_participation"] == pytest.approx(fast_ratio, rel=1e-9)
        if not config.model.halting:
            assert "halting_steps" not in found
            continue
        weight, bias = (p.detach().numpy() for p in model.model.halting.parameters())
        halting, margins = [], []
        for row in slow:
            left = 1.0
            for cycle in range(1, cycles + 1):
                margin = float(row[cycle - 1] @ weight + bias)
                halts = 1 / (1 + math.exp(-margin)) if cycle < cycles else 1.0
                margins += [margin] * (cycle < cycles)
                halting.append((left * halts / len(slow), cycle))
                left *= 1 - halts
        mean = sum(share * cycle for share, cycle in halting)
        variance = sum(share * (cycle - mean) ** 2 for share, cycle in halting)
        assert found["halting_steps"] == pytest.approx(mean, rel=1e-9)
        assert found["halting_variance"] == pytest.approx(variance, rel=1e-9)
        assert found["halting_margin"] == pytest.approx(np.mean(margins), rel=1e-9)


def test_every_observable_is_one_finite_float64_per_seed():
    config = small_config(model={**SMOOTH, **parse_variant("loops-2x2-halting").fields})
    stack = stacked(config, {seed: lively_model(config, seed) for seed in SEEDS})
    found = Observer(stack).measure(*stack.gradients(keep_logits=True))
    for name, values in found.items():
        assert values.dtype == np.float64, name
        assert values.shape == (2,), name
        assert np.isfinite(values).all(), name


def test_the_metadata_names_blocks_and_sampling():
    found = about_loops(GrokkingTransformerConfig(cycles=2, inner_steps=3))
    assert (found["fast_block"], found["slow_block"]) == ("layer 1", "layer 2")
    assert (found["cycles"], found["inner_steps"], found["halting"]) == (2, 3, False)
