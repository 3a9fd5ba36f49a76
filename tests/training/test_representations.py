"""What representations show: hand cases, and plain loops over one member's own model."""

import math

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform
from training_builders import EQUALS, equations, lively_model, small_config, stacked

from gmb_hf.training import representations as measures
from gmb_hf.training.gradients import Gradients
from gmb_hf.training.observables import Observer
from gmb_hf.training.representations import Representations
from gmb_hf.training.units import Units

SEEDS = (3, 8)


def rows(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Shown:
    """Two lively models, what was recorded of them, and what one of them shows by itself."""

    def __init__(self, sections=None, checkpoints=1, kinds=(Representations,)):
        self.config = small_config(**(sections or {}))
        self.models = {seed: lively_model(self.config, seed) for seed in SEEDS}
        self.stack = stacked(self.config, self.models)
        observer = Observer(self.stack, [kind(self.stack) for kind in kinds])
        for _ in range(checkpoints):
            self.found = observer.measure(*self.stack.gradients(keep_logits=True))

    @torch.no_grad()
    def own(self, seed, split="train"):
        """Hidden states, logits and answers of a member by its own forward, numpy."""
        ids = equations(self.config, seed, split)[0]
        hidden = self.models[seed].model(input_ids=ids).last_hidden_state[:, EQUALS]
        logits = self.models[seed](input_ids=ids).logits[:, EQUALS]
        return hidden.numpy(), logits.numpy(), ids[:, EQUALS + 1].numpy()


@pytest.fixture(scope="module")
def shown():
    return Shown({"task": {"operation": "add"}})


def spectrum(hidden):
    values = np.linalg.eigvalsh(np.cov(hidden.T))[::-1].clip(min=0)
    return values / values.sum()


def test_spectra_of_hidden_states(shown):
    for index, seed in enumerate(SEEDS):
        shares = spectrum(shown.own(seed)[0])
        positive = shares[shares > 1e-15]
        expected = -(positive * np.log(positive)).sum() / math.log(8)
        assert shown.found["hidden_entropy"][index] == pytest.approx(expected, rel=1e-9)
        assert shown.found["hidden_rank"][index] == 1 + np.sum(np.cumsum(shares) < 0.99)
        held_out = spectrum(shown.own(seed, "test")[0])
        contrast = math.log(held_out[:5].sum() / max(held_out[5:].sum(), 1e-12))
        assert shown.found["head_tail_contrast"][index] == pytest.approx(contrast, rel=1e-6)
        values = np.linalg.eigvalsh(np.corrcoef(shown.own(seed)[0].T)).clip(1e-18) / 8
        rank = math.exp(-(values * np.log(values)).sum())
        assert shown.found["hidden_correlation_rank"][index] == pytest.approx(rank, rel=1e-6)


def test_even_and_single_directions_have_the_spectra_that_they_must():
    even = torch.cat([torch.eye(4), -torch.eye(4)]).double()
    line = torch.outer(torch.arange(8.0), torch.tensor([1.0, 2.0, 0.0, -1.0])).double()
    shares = measures.spectrum_shares(torch.stack([even, line]))
    assert torch.allclose(shares[0], torch.full((4,), 0.25, dtype=torch.float64))
    assert measures.entropy(shares).tolist() == pytest.approx([math.log(4), 0], abs=1e-9)
    assert measures.energy_rank(shares).tolist() == [4, 1]


@pytest.mark.parametrize("split", ["train", "test"])
def test_distance_between_classes_over_that_within(shown, split):
    for index, seed in enumerate(SEEDS):
        hidden, _, answers = shown.own(seed, split)
        means = {c: hidden[answers == c].mean(0) for c in set(answers)}
        between = np.mean(
            [np.sum((means[c] - means[d]) ** 2) for c in means for d in means if c < d]
        )
        inner = np.mean([np.sum((x - means[c]) ** 2) for x, c in zip(hidden, answers, strict=True)])
        found = shown.found[f"{split}_class_distance"][index]
        assert found == pytest.approx(between / max(inner, 1e-12), rel=1e-9)


def test_confidence_scale_and_losses_of_zero(shown):
    for index, seed in enumerate(SEEDS):
        _, logits, answers = shown.own(seed)
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        assert shown.found["train_confidence"][index] == pytest.approx(shares.max(1).mean())
        assert shown.found["logit_scale"][index] == pytest.approx(np.sqrt((logits**2).mean()))
        losses = torch.nn.functional.cross_entropy(
            torch.tensor(logits).float(), torch.tensor(answers), reduction="none"
        )
        assert shown.found["zero_loss_share"][index] == np.mean(losses.numpy() == 0)


def test_alignment_and_flatness_of_the_output_layer(shown):
    for index, seed in enumerate(SEEDS):
        hidden, _, answers = shown.own(seed)
        head = shown.models[seed].lm_head.weight.detach().numpy()
        _, singular, right = np.linalg.svd(head)
        p = singular**2 / np.sum(singular**2)
        q = np.sum((hidden @ right.T) ** 2, axis=0) / np.sum(hidden**2)
        expected = 1 + 0.5 * math.log(np.sum(p * q)) / math.log(8)
        assert shown.found["alignment_ratio"][index] == pytest.approx(expected, rel=1e-9)
        # The Hessian of the loss by the output weights, from autograd.
        inputs = torch.tensor(hidden)
        answers = torch.tensor(answers)
        hessian = torch.autograd.functional.hessian(
            lambda w, x=inputs, y=answers: torch.nn.functional.cross_entropy(x @ w.T, y),
            torch.tensor(head),
        )
        traces = torch.einsum("sitj,ij->st", hessian, torch.eye(8, dtype=torch.float64))
        flatness = (torch.tensor(head @ head.T) * traces).sum()
        assert shown.found["relative_flatness"][index] == pytest.approx(float(flatness), rel=1e-8)


def test_a_linear_probe_reads_what_is_linear():
    x = rows(2, 60, 5)
    labels = x[:, :, 0].gt(0).long()
    x[0, :, 0] = 4 * labels[0]  # the class itself
    x[1] = rows(60, 5, seed=9)  # nothing of it
    found = measures.probe_accuracy(x, labels, 2)
    assert found[0] == 1
    assert 0.2 < found[1] < 0.8


def test_the_probe_is_ridge_regression_in_two_folds(shown):
    for index, seed in enumerate(SEEDS):
        hidden, _, answers = shown.own(seed)
        half, right = len(hidden) // 2, []
        parts = slice(half), slice(half, None)
        for left, fitted in (parts, parts[::-1]):
            mean, targets = hidden[fitted].mean(0), np.eye(12)[answers[fitted]]
            x = hidden[fitted] - mean
            ridge = measures.RIDGE * np.trace(x.T @ x) / 8 * np.eye(8)
            fit = np.linalg.solve(x.T @ x + ridge, x.T @ (targets - targets.mean(0)))
            predicted = ((hidden[left] - mean) @ fit + targets.mean(0)).argmax(1)
            right.extend(predicted == answers[left])
        assert shown.found["probe_accuracy"][index] == pytest.approx(np.mean(right))


def test_the_cloud_of_probe_rows(shown):
    for index, seed in enumerate(SEEDS):
        distances = squareform(pdist(shown.own(seed)[0]))
        tree = minimum_spanning_tree(distances).sum()
        assert shown.found["component_persistence"][index] == pytest.approx(tree, rel=1e-6)
        ordered = np.sort(distances, axis=1)
        logs = np.log(ordered[:, 2] / ordered[:, 1])
        dimension = len(logs) / logs.sum()
        assert shown.found["intrinsic_dimension"][index] == pytest.approx(dimension, rel=1e-5)


def test_intrinsic_dimension_of_clouds_whose_dimension_is_known():
    line, plane = rows(600, 1), rows(600, 2, seed=1)
    for cloud, dimension in ((line, 1), (plane, 2)):
        lifted = (cloud @ rows(cloud.shape[1], 6, seed=2)).unsqueeze(0)
        found = measures.intrinsic_dimension(measures.distances_between(lifted))
        assert float(found) == pytest.approx(dimension, rel=0.1)
    twice = torch.cat([plane, plane]).unsqueeze(0)  # each row has a copy
    assert float(measures.intrinsic_dimension(measures.distances_between(twice))) == 0


def test_two_distant_groups_stand_out_of_the_distances():
    alike = rows(1, 40, 30)
    apart = alike.clone()
    apart[:, :20] += 30
    found = [
        float(measures.distance_outliers(measures.distances_between(x))) for x in (alike, apart)
    ]
    assert found[1] > found[0] + 0.5
    # Rank one, entries +-c: the largest eigenvalue is c n, the deviation c.
    signs = torch.ones(16, dtype=torch.float64)
    signs[8:] = -1
    matrix = -torch.outer(signs, signs).unsqueeze(0)
    expected = math.log(16 / (2 * math.sqrt(16)))
    assert float(measures.distance_outliers(matrix)) == pytest.approx(expected)


def test_a_cloud_of_tight_groups_lies_beyond_the_bifurcation():
    centres = 5 * rows(8, 4, seed=3)
    tight = (centres.repeat(8, 1) + 0.01 * rows(64, 4)).unsqueeze(0)
    broad = rows(1, 64, 4)
    found = [float(measures.bifurcation_coordinate(x)) for x in (tight, broad)]
    assert found[0] > 5 > found[1] > 0


def test_information_of_class_means_and_output_rows():
    present = torch.ones(1, 4, dtype=torch.float64)
    orthogonal = torch.eye(4, dtype=torch.float64).unsqueeze(0)
    ratio, difference = measures.shared_information(orthogonal, orthogonal, present)
    assert float(ratio) == pytest.approx(1)  # 2 log 4 - log 4 over log 4
    assert float(difference) == pytest.approx(0, abs=1e-9)
    single = torch.ones(1, 4, 4, dtype=torch.float64)
    ratio, difference = measures.shared_information(orthogonal, single, present)
    assert float(difference) == pytest.approx(1)


def test_residual_of_a_linear_system_is_none_and_of_noise_is_large():
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]], dtype=torch.float64)
    state, track = torch.tensor([1.0, 0.0], dtype=torch.float64), []
    for _ in range(40):
        track.append(state @ rows(2, 19, seed=4))
        state = turn @ state
    linear, noise = torch.stack(track), rows(40, 19, seed=5)
    residual, rank = measures.dmd_residual(torch.stack([linear, noise], dim=1))
    assert float(residual[0]) < 1e-6
    assert float(residual[1]) > 0.1
    assert int(rank[0]) == 2
    assert int(rank[1]) > 10


def test_residual_is_that_of_numpy():
    z = np.cumsum(rows(30, 2, 4).numpy(), axis=0)
    residual, rank = measures.dmd_residual(torch.tensor(z))
    for model in range(2):
        hankel = np.stack([z[t : t + 5, model].ravel() for t in range(26)], axis=1)
        x, y = hankel[:, :-1], hankel[:, 1:]
        u, s, vt = np.linalg.svd(x, full_matrices=False)
        r = 1 + int(np.sum(np.cumsum(s**2) / np.sum(s**2) < 0.99))
        u, s, vt = u[:, :r], s[:r], vt[:r]
        operator = u.T @ y @ vt.T @ np.diag(1 / s)
        expected = np.linalg.norm(y - u @ operator @ u.T @ x) / np.linalg.norm(y)
        assert int(rank[model]) == r
        assert float(residual[model]) == pytest.approx(expected, rel=1e-6)


def test_spectrum_of_losses_over_time():
    losses = rows(6, 1, 9)
    participation, capacity = measures.loss_spectrum(losses)
    values = np.linalg.eigvalsh(np.cov(losses[:, 0].T.numpy())).clip(min=0)
    p = values[values > 1e-12] / values.sum()
    assert float(participation) == pytest.approx(1 / np.sum(p**2))
    mean = np.sum(p * -np.log(p))
    assert float(capacity) == pytest.approx(np.sum(p * (-np.log(p) - mean) ** 2))
    still = measures.loss_spectrum(torch.ones(6, 1, 9))
    assert [float(x) for x in still] == [1, 0]


def all_logits(shown, seed):
    """Logits of every pair of operands by a member's own forward, [p, p, V]."""
    found = np.full((5, 5, 9), np.nan)
    for split in ("train", "test"):
        ids = equations(shown.config, seed, split)[0].numpy()
        found[ids[:, 1], ids[:, 3]] = shown.own(seed, split)[1]
    return found


def test_swapped_and_replaced_operands(shown):
    for index, seed in enumerate(SEEDS):
        logits = all_logits(shown, seed)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        answers, divergences, alike, changed = logits.argmax(-1), [], [], []
        for a in range(5):
            for b in range(5):
                if a < b:
                    p, q = np.exp(logs[a, b]), np.exp(logs[b, a])
                    both = [p @ (logs[a, b] - logs[b, a]), q @ (logs[b, a] - logs[a, b])]
                    divergences.append(np.mean(both))
                    alike.append(answers[a, b] == answers[b, a])
                changed += [answers[a, b] != answers[c, b] for c in range(5) if c != a]
                changed += [answers[a, b] != answers[a, c] for c in range(5) if c != b]
        assert shown.found["swap_divergence"][index] == pytest.approx(np.mean(divergences))
        assert shown.found["swap_agreement"][index] == pytest.approx(np.mean(alike))
        assert shown.found["input_sensitivity"][index] == pytest.approx(np.mean(changed))


def test_columns_that_make_no_sense_are_absent():
    divided = Shown({"task": {"operation": "div"}}).found
    assert "swap_divergence" not in divided
    assert np.isfinite(divided["input_sensitivity"]).all()  # b = 0 has no rows


def test_a_seed_alone_gives_what_it_gives_in_company(shown):
    config = shown.config
    alone = stacked(config, {8: shown.models[8]})
    found = Observer(alone, [Representations(alone)]).measure(*alone.gradients(keep_logits=True))
    for name, values in found.items():
        assert values[0] == pytest.approx(shown.found[name][1], rel=1e-7, abs=1e-9), name


def test_a_resumed_recorder_goes_on_with_its_windows():
    config = small_config()
    stack = stacked(config, {seed: lively_model(config, seed) for seed in SEEDS})
    whole = Observer(stack, [Representations(stack)])
    for step in range(3):
        if step == 2:
            resumed = Observer(stack, [Representations(stack)])
            resumed.load_state(whole.state())
            resumed.predictions = whole.predictions
            again = resumed.measure(*stack.gradients(keep_logits=True))
        found = whole.measure(*stack.gradients(keep_logits=True))
        stack.update()
    assert found["loss_heat_capacity"].min() > 0
    for name, values in found.items():
        assert np.array_equal(values, again[name]), name


VARIANTS = {
    "without norms": {"model": {"layer_norm": False}},
    "loops": {"model": {"layers": 2, "cycles": 2, "inner_steps": 1}},
    "mixed states": {"model": {"sort_window": 2}},
    "wrong labels": {"task": {"operation": "mul", "corruption_rate": 0.2}},
}


@pytest.mark.parametrize("sections", VARIANTS.values(), ids=VARIANTS.keys())
def test_columns_of_other_models_are_finite(sections):
    found = Shown(sections, checkpoints=2, kinds=(Representations, Units, Gradients)).found
    for name, values in found.items():
        assert np.isfinite(values).all(), name
    plain = "sort_window" not in str(sections) and "cycles" not in str(sections)
    assert ("head_similarity" in found) == plain
