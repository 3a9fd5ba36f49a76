"""What units, attention and input gradients show: hand cases, and one member's own model."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from training_builders import EQUALS, equations, lively_model, small_config, stacked

from gmb_hf.training import units as measures
from gmb_hf.training.observables import NOISE_SCALE, Observer, orthonormal_waves
from gmb_hf.training.representations import correlations as of_covariance
from gmb_hf.training.representations import scatter
from gmb_hf.training.units import Units

SEEDS = (3, 8)


def correlations(rows):
    return of_covariance(scatter(rows))


def rows(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Shown:
    """Two lively models as a stack, and what was recorded of them."""

    def __init__(self, seeds=SEEDS, **sections):
        self.config = small_config(**sections)
        self.models = {seed: lively_model(self.config, seed) for seed in seeds}
        self.stack = stacked(self.config, self.models)
        self.recorder = Units(self.stack)
        observer = Observer(self.stack, [self.recorder])
        self.found = observer.measure(*self.stack.gradients(keep_logits=True))

    def inside(self, seed):
        """Units [n, f], attention [h, n, T] and answers [n] of a member by its own forward."""
        ids, held, model = equations(self.config, seed)[0], [], self.models[seed]
        hook = model.model.layers[0].mlp.act.register_forward_hook(
            lambda _, __, out: held.append(out[:, EQUALS].detach())
        )
        out = model(input_ids=ids, output_attentions=True)
        hook.remove()
        attention = out.attentions[0][:, :, EQUALS, : EQUALS + 1].detach()
        return held[0], attention, ids[:, EQUALS + 1]


@pytest.fixture(scope="module")
def shown():
    return Shown(task={"prime": 7})


def test_activations_that_are_off(shown):
    for index, seed in enumerate(SEEDS):
        off = shown.inside(seed)[0].numpy() <= 0
        assert shown.found["activation_sparsity"][index] == pytest.approx(off.mean())
        assert shown.found["dead_units"][index] == pytest.approx(off.all(0).mean())
    near = torch.tensor([[[0.5, 0.001], [0.5, -0.009]]])
    assert [float(x) for x in measures.sparsity(near, relu=False)] == [0.5, 0.5]
    assert [float(x) for x in measures.sparsity(near, relu=True)] == [0.25, 0]


def test_patterns_of_two_heads(shown):
    for index, seed in enumerate(SEEDS):
        pattern = shown.inside(seed)[1].numpy()  # [n, h, T]
        cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pattern]
        assert shown.found["head_similarity"][index] == pytest.approx(np.mean(cosines))
        spread = np.std((-pattern * np.log(pattern)).sum(-1).mean(0))
        assert shown.found["head_entropy_spread"][index] == pytest.approx(spread)


def test_frequencies_of_units(shown):
    for index, seed in enumerate(SEEDS):
        units, _, answers = (x.numpy() for x in shown.inside(seed))
        means = np.stack([units[answers == c].mean(0) for c in range(7)])
        power = np.abs(np.fft.fft(means - means.mean(0), axis=0)[1:4]) ** 2  # [K, f]
        alive = power.sum(0) > 1e-12
        top = np.bincount(power.argmax(0)[alive], minlength=3).max() / alive.sum()
        found = shown.found["frequency_synchronisation"][index]
        assert found == pytest.approx((top - 1 / 3) / (2 / 3))
        shares = np.sort(power / np.where(alive, power.sum(0), 1), axis=0)[::-1]
        needed = np.where(alive, 1 + np.sum(np.cumsum(shares, axis=0) < 0.9, axis=0), 0)
        expected = np.sort(needed)[(len(needed) - 1) // 2]  # the lower median
        assert shown.found["frequency_rank"][index] == expected


def test_units_of_one_wave_are_synchronised():
    place = torch.arange(7).repeat(2).unsqueeze(0)
    angle = 2 * math.pi * place[0].double() / 7
    one = torch.stack([(2 * angle + phase).cos() for phase in (0.0, 1.0, 2.0, 3.0)], dim=1)
    mixed = torch.stack([(k * angle).cos() for k in (1, 2, 3)], dim=1)
    waves = orthonormal_waves(7)
    found = [measures.frequencies(x.unsqueeze(0), place, waves) for x in (one, mixed)]
    assert [float(share) for share, _ in found] == pytest.approx([1, 0], abs=1e-9)
    assert [float(rank) for _, rank in found] == [1, 1]


def test_groups_are_those_of_average_linkage():
    matrix = correlations(rows(2, 30, 14))
    found = measures.grouped(matrix.clone(), 5)
    for model in range(2):
        distance = squareform((1 - matrix[model]).numpy(), checks=False)
        expected = cut_tree(linkage(distance, "average"), n_clusters=5)[:, 0]
        assert found[model].tolist() == expected.tolist()


def test_minors_and_normal_scores():
    matrix = correlations(rows(2, 30, 4))
    logs = measures.log_minors(matrix)
    for subset in range(16):
        members = [j for j in range(4) if subset >> j & 1]
        expected = np.linalg.slogdet(matrix[1][members][:, members].numpy())[1] if members else 0
        assert float(logs[1, subset]) == pytest.approx(expected, abs=1e-9)
    scores = measures.normal_scores(torch.tensor([[[3.0, 1.0], [1.0, 1.0], [2.0, 1.0]]]))
    assert scores[0, :, 0].tolist() == pytest.approx([0.6745, -0.6745, 0], abs=1e-4)
    assert scores[0, :, 1].tolist() == pytest.approx([0, 0, 0], abs=1e-9)


def test_o_information_is_that_of_its_definition():
    matrix = correlations(rows(1, 30, 4))
    r = (1 - 1e-6) * matrix[0].numpy() + 1e-6 * np.eye(4)

    def entropy(members):
        constant = 0.5 * len(members) * math.log(2 * math.pi * math.e)
        return constant + 0.5 * np.linalg.slogdet(r[np.ix_(members, members)])[1]

    values = []
    for size in (2, 3, 4):
        for members in itertools.combinations(range(4), size):
            rest = [[i for i in members if i != j] for j in members]
            terms = [entropy([j]) - entropy(other) for j, other in zip(members, rest, strict=True)]
            values.append((size - 2) * entropy(list(members)) + sum(terms))
    smallest, largest = measures.o_information(matrix)
    assert float(smallest) == pytest.approx(min(values), abs=1e-9)
    assert float(largest) == pytest.approx(max(values), abs=1e-9)


def test_copies_are_redundant_and_a_sum_is_synergetic():
    x = rows(1, 2000, 2)
    noise = 0.1 * rows(1, 2000, 3, seed=1)
    copies = x[:, :, :1] + noise
    total = torch.cat([x, x.sum(-1, keepdim=True) + noise[:, :, :1]], dim=2)
    found = [measures.o_information(correlations(y)) for y in (copies, total)]
    assert float(found[0][1]) > 1 > -0.1 < float(found[0][0])
    assert float(found[1][0]) < -0.5


def test_information_of_groups_of_units(shown):
    for index, seed in enumerate(SEEDS):
        own = shown.inside(seed)[0].unsqueeze(0)
        synergy, redundancy = measures.unit_information(own)
        assert shown.found["synergy"][index] == pytest.approx(float(synergy), rel=1e-6)
        assert shown.found["redundancy"][index] == pytest.approx(float(redundancy), rel=1e-6)


@torch.no_grad()
def test_entropy_under_noise(shown):
    for index, seed in enumerate(SEEDS):
        model, ids = shown.models[seed].model, equations(shown.config, seed)[0][:, : EQUALS + 1]
        embedded = model.embed_tokens(ids) + model.embed_positions.weight[: EQUALS + 1]
        noise = NOISE_SCALE * embedded.square().mean().sqrt() * shown.recorder._noise
        inputs = model.embed_tokens(ids)
        grams = []
        for own in (inputs, inputs + noise):
            hidden = model(inputs_embeds=own).last_hidden_state[:, EQUALS].numpy()
            unit = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
            grams.append(unit @ unit.T / len(unit))
        joint = grams[0] * grams[1] * len(ids)
        entropies = [-math.log(np.trace(g @ g)) for g in (*grams, joint)]
        assert shown.found["noise_entropy"][index] == pytest.approx(entropies[1])
        information = entropies[0] + entropies[1] - entropies[2]
        assert shown.found["noise_information"][index] == pytest.approx(information)


@torch.no_grad()
def test_circuit_complexity(shown):
    for index, seed in enumerate(SEEDS):
        model, ids = shown.models[seed], equations(shown.config, seed)[0]
        logs = model(input_ids=ids).logits[:, EQUALS].log_softmax(-1)
        before = {name: model.get_parameter(name).clone() for name in shown.recorder._kept}
        assert len(before) == 4
        for name, kept in shown.recorder._kept.items():
            assert 0 < kept.double().mean() < 1
            model.get_parameter(name).mul_(kept)
        other = model(input_ids=ids).logits[:, EQUALS].log_softmax(-1)
        for name, weight in before.items():
            model.get_parameter(name).copy_(weight)
        apart = (logs.exp() * (logs - other)).sum(-1).mean()
        assert shown.found["circuit_complexity"][index] == pytest.approx(float(apart))


def test_gradients_by_the_input(shown):
    signs = shown.recorder._signs.double()  # a vector for each row
    for index, seed in enumerate(SEEDS):
        model, ids = shown.models[seed], equations(shown.config, seed)[0][:, : EQUALS + 1]
        tokens = model.model.embed_tokens(ids).detach()
        inputs = tokens.requires_grad_()
        logits = model(inputs_embeds=inputs).logits[:, EQUALS]
        jacobians = [
            torch.autograd.grad((logits * v).sum(), inputs, retain_graph=True)[0]
            for v in (torch.ones_like(signs), signs)
        ]
        embedded = inputs.detach() + model.model.embed_positions.weight[: EQUALS + 1].detach()
        cosines = [
            float(torch.nn.functional.cosine_similarity(x.flatten(), g.flatten(), dim=0))
            for x, g in zip(embedded, jacobians[0], strict=True)
        ]
        assert shown.found["centroid_alignment"][index] == pytest.approx(np.mean(cosines))
        labels = equations(shown.config, seed)[0][:, EQUALS + 1].numpy()
        centres = [jacobians[0][labels == c].mean(0).flatten().numpy() for c in set(labels)]
        values = np.linalg.eigvalsh(np.cov(np.stack(centres).T))[::-1]
        rank = 1 + np.sum(np.cumsum(values) / values.sum() < 0.9)
        assert shown.found["centroid_rank"][index] == rank
        scale = len(ids) * logits.shape[1]
        products = {}
        for position in (1, 3):
            g = jacobians[1][:, position]
            products[position] = (g.T @ g / scale).numpy()
        whole = products[1] + products[3]
        assert shown.found["agop_trace"][index] == pytest.approx(np.trace(whole))
        assert shown.found["agop_top"][index] == pytest.approx(np.linalg.eigvalsh(whole)[-1])
        residues, deviations = model.model.embed_tokens.weight[:7].detach().numpy(), []
        for one in products.values():
            by_token = residues @ one @ residues.T
            circulant = np.empty_like(by_token)
            for k in range(7):
                at = np.arange(7), (np.arange(7) + k) % 7
                circulant[at] = by_token[at].mean()
            deviations.append(np.linalg.norm(by_token - circulant) / np.linalg.norm(by_token))
        found = shown.found["agop_circulant_deviation"][index]
        assert found == pytest.approx(np.mean(deviations))


def test_a_circulant_matrix_deviates_nowhere():
    first = rows(6)
    matrix = torch.stack([first.roll(i) for i in range(6)]).unsqueeze(0)
    assert float(measures.circulant_deviation(matrix)) == pytest.approx(0, abs=1e-12)


def test_what_a_model_does_not_have_is_not_recorded():
    single = Shown(model={"heads": 1}, task={"operation": "x2_xy_y2"}).found
    assert not {"head_similarity", "frequency_rank", "agop_circulant_deviation"} & single.keys()
    sorted_states = Shown(model={"sort_window": 2})
    assert sorted_states.recorder.measure(None) == {}


def test_a_seed_alone_gives_what_it_gives_in_company(shown):
    alone = Shown(seeds=[8], task={"prime": 7}).found
    for name, values in alone.items():
        assert values[0] == pytest.approx(shown.found[name][1], rel=1e-7, abs=1e-9), name


def test_two_layers_and_a_multiplicative_operation_are_finite():
    found = Shown(model={"layers": 2}, task={"operation": "mul", "prime": 7}).found
    assert all(np.isfinite(values).all() for values in found.values())
    assert "frequency_rank" in found
