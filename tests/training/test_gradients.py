"""What gradients and curvature show, against autograd on one member's own model."""

import math

import numpy as np
import pytest
import torch
from training_builders import EQUALS, equations, lively_model, own_loss, small_config, stacked

from gmb_hf.training import activations
from gmb_hf.training import gradients as measures
from gmb_hf.training.gradients import (
    Gradients,
    Hessian,
    LearningCoefficient,
    LossGradient,
    Perturbations,
    TangentKernel,
)
from gmb_hf.training.observables import Observer

SEEDS = (3, 8)


class Shown:
    """Two lively models as a stack, and what a recorder saw of them."""

    def __init__(self, kind, seeds=SEEDS, **sections):
        self.config = small_config(**sections)
        self.models = {seed: lively_model(self.config, seed) for seed in seeds}
        self.stack = stacked(self.config, self.models)
        self.recorder = kind(self.stack)
        self.observer = Observer(self.stack, [self.recorder])
        self.found = self.measure()

    def measure(self):
        return self.observer.measure(*self.stack.gradients(keep_logits=True))


def own_gradient(model, config, seed, part=slice(None)):
    """A member's gradient over some training rows by its own forward, numpy [P]."""
    ids, labels = (x[part] for x in equations(config, seed))
    model.zero_grad()
    model(input_ids=ids, labels=labels).loss.backward()
    return flat_gradient(model)


def flat_gradient(model):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([g.flatten() for g in gradients]).numpy().copy()


def flat_weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().copy()


def moved(model, weights):
    """Set a model's weights from numpy [P]."""
    parts = torch.tensor(weights).split([p.numel() for p in model.parameters()])
    with torch.no_grad():
        for parameter, part in zip(model.parameters(), parts, strict=True):
            parameter.copy_(part.view(parameter.shape))


GRADIENT_CASES = [
    {},
    {"model": {"band_fc1": 4, "tied": True}},
    {"model": {"sort_window": 2}},  # whose gate is one number a model
]


@pytest.mark.parametrize("sections", GRADIENT_CASES)
def test_the_gradient_at_other_weights_is_autograds(sections):
    config = small_config(**sections)
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    losses, found = LossGradient(stack, slice(4)).with_losses(measures.flat(stack.weights))
    for index, (seed, model) in enumerate(models.items()):
        expected = own_gradient(model, config, seed, slice(4))
        np.testing.assert_allclose(found[index].numpy(), expected, atol=1e-12)
        assert float(losses[index]) > 0


def test_order_of_two_steps_and_noise():
    shown = Shown(Gradients)
    rows = len(equations(shown.config, 3)[0]) // 8
    for index, (seed, model) in enumerate(shown.models.items()):
        start = flat_weights(model)
        first, second = slice(rows), slice(rows, 2 * rows)

        def after(parts, model=model, seed=seed, start=start):
            weights = start
            for part in parts:
                moved(model, weights)
                weights = weights - 1e-3 * own_gradient(model, shown.config, seed, part)
            return weights

        g = [(start - after([part])) / 1e-3 for part in (first, second)]
        apart = np.linalg.norm(after([first, second]) - after([second, first]))
        lengths = [np.linalg.norm(x) for x in g]
        defect = apart / (1e-6 * lengths[0] * lengths[1])
        moved(model, start)
        found = {name: values[index] for name, values in shown.found.items()}
        assert found["commutator_defect"] == pytest.approx(defect, rel=1e-6)
        variance = np.sum((g[0] - g[1]) ** 2) / 4
        assert found["gradient_variance"] == pytest.approx(variance, rel=1e-6)
        scale = 2 * rows * variance / np.sum(((g[0] + g[1]) / 2) ** 2)
        assert found["gradient_noise_scale"] == pytest.approx(scale, rel=1e-6)
        whole = own_gradient(model, shown.config, seed)
        cosine = -whole @ start / np.linalg.norm(whole) / np.linalg.norm(start)
        assert found["loss_scaling_alignment"] == pytest.approx(cosine)


def test_quadratic_losses_commute_as_their_matrices_do():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(5, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    a, b = a + a.T, b + b.T
    weights = torch.randn(1, 5, dtype=torch.float64, generator=generator)
    defect, *_ = measures.commutator_defect(weights, lambda w: w @ a, lambda w: w @ b)
    g, h = weights @ a, weights @ b
    expected = (g @ b - h @ a).norm() / (g.norm() * h.norm())
    assert float(defect) == pytest.approx(float(expected), rel=1e-6)
    same, *_ = measures.commutator_defect(weights, lambda w: w @ a, lambda w: w @ a)
    assert float(same) == pytest.approx(0, abs=1e-9)


def test_noise_scale_of_gradients_that_are_known():
    first, second = torch.tensor([[3.0, 1.0]]), torch.tensor([[3.0, -1.0]])
    variance, scale = measures.gradient_noise(first, second, rows=10)
    assert float(variance) == 1
    assert float(scale) == pytest.approx(10 * 2 / 9)
    # Orthogonal gradients: the rows of both batches, however large the noise is.
    for size in (0.01, 100.0):
        orthogonal = torch.tensor([[size, 0.0]]), torch.tensor([[0.0, size]])
        assert float(measures.gradient_noise(*orthogonal, rows=10)[1]) == pytest.approx(20)


def test_the_slow_gradient_is_a_moving_average_over_steps():
    shown = Shown(Gradients)
    held, norms = None, []
    for checkpoint in range(3):
        if checkpoint:
            for _ in range(5):
                shown.stack.gradients()
                shown.stack.update()
            shown.found = shown.measure()
        else:
            shown = Shown(Gradients)
        shown.stack.gradients()
        now = np.stack(
            [
                np.concatenate([w.grad[i].numpy().ravel() for w in shown.stack.weights.values()])
                for i in range(2)
            ]
        )
        held = now if held is None else 0.98**5 * held + (1 - 0.98**5) * now
        norms.append(np.linalg.norm(held, axis=1))
        np.testing.assert_allclose(shown.found["slow_gradient_norm"], norms[-1], rtol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_the_hessian_is_autograds(activation):
    # So many units on so many rows that a ReLU turns within any step that is not short.
    sizes = {"width": 32, "mlp_width": 64}
    shown = Shown(Hessian, model={"activation": activation, **sizes}, task={"prime": 13})
    generator = torch.Generator().manual_seed(0)
    size = len(flat_weights(shown.models[3]))
    signs = torch.randint(2, (measures.TRACE_PROBES, size), generator=generator)
    signs = (2 * signs - 1).double()
    start = torch.randn(size, generator=generator, dtype=torch.float64).unsqueeze(0)
    for index, (seed, model) in enumerate(shown.models.items()):
        parameters = list(model.parameters())
        loss, _ = own_loss(model, shown.config, seed)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        whole = torch.cat([g.flatten() for g in gradients])

        def product(vector, whole=whole, parameters=parameters):
            held = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
            parts = torch.autograd.grad(whole @ vector.flatten(), parameters, **held)
            return torch.cat([part.flatten() for part in parts]).view(vector.shape)

        trace = np.mean([float(sign @ product(sign)) for sign in signs])
        assert shown.found["hessian_trace"][index] == pytest.approx(trace, rel=1e-4, abs=1e-4)
        top = float(measures.largest_eigenvalue(product, start))
        assert shown.found["hessian_top"][index] == pytest.approx(top, rel=1e-4)


def test_lanczos_finds_the_largest_eigenvalue():
    generator = torch.Generator().manual_seed(1)
    matrix = torch.randn(2, 30, 30, dtype=torch.float64, generator=generator)
    matrix = matrix + matrix.transpose(1, 2)
    matrix[0] -= 40 * torch.eye(30)  # the largest in size is negative here

    def product(vector):
        return torch.bmm(matrix, vector.unsqueeze(2)).squeeze(2)

    start = torch.ones(2, 30, dtype=torch.float64)
    found = measures.largest_eigenvalue(product, start, steps=30)
    np.testing.assert_allclose(found, torch.linalg.eigvalsh(matrix)[:, -1], rtol=1e-9)
    # A start within an invariant space exhausts it at once.
    diagonal = torch.diag_embed(torch.tensor([[2.0, 5.0, -9.0]], dtype=torch.float64))
    alone = measures.largest_eigenvalue(
        lambda v: torch.bmm(diagonal, v.unsqueeze(2)).squeeze(2),
        torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64),
        steps=3,
    )
    assert float(alone) == pytest.approx(5)


def test_the_tangent_kernel_is_that_of_each_rows_gradient():
    shown = Shown(TangentKernel)
    kernels = []
    for index, (seed, model) in enumerate(shown.models.items()):
        ids, rows = equations(shown.config, seed)[0], []
        for row in ids:
            model.zero_grad()
            model(input_ids=row.unsqueeze(0)).logits[0, EQUALS, row[EQUALS + 1]].backward()
            rows.append(flat_gradient(model))
        kernel = np.stack(rows) @ np.stack(rows).T
        kernels.append(kernel)
        labels = ids[:, EQUALS + 1].numpy()
        same = (labels[:, None] == labels).astype(float)
        cosine = (kernel * same).sum() / np.linalg.norm(kernel) / np.linalg.norm(same)
        assert shown.found["kernel_alignment"][index] == pytest.approx(cosine)
        np.testing.assert_allclose(shown.recorder.state()["last"][index], kernel, rtol=1e-9)
    assert shown.found["kernel_distance"].tolist() == pytest.approx([0, 0], abs=1e-12)
    assert shown.found["kernel_speed"].tolist() == [0, 0]
    shown.stack.update()
    again = shown.measure()
    for index, before in enumerate(kernels):
        now = shown.recorder.state()["last"][index].numpy()
        speed = np.linalg.norm(now - before) / np.linalg.norm(now)
        assert again["kernel_speed"][index] == pytest.approx(speed)
        middle = np.eye(len(now)) - 1 / len(now)
        first, last = (middle @ kernel @ middle for kernel in (before, now))
        distance = 1 - (first * last).sum() / np.linalg.norm(first) / np.linalg.norm(last)
        assert again["kernel_distance"][index] == pytest.approx(distance, abs=1e-10)


def test_dropout_and_local_complexity():
    shown = Shown(Perturbations)
    found = shown.found
    assert np.all((found["dropout_accuracy"] >= 0) & (found["dropout_accuracy"] <= 1))
    assert np.all(found["dropout_variance"] <= 0.25)
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(5 * 8, 16, generator=generator, dtype=torch.float64)
    directions = torch.linalg.qr(normal).Q.T.view(16, 5, 8)
    for index, (seed, model) in enumerate(shown.models.items()):
        counts = []
        with torch.no_grad():
            for row in equations(shown.config, seed)[0][:, : EQUALS + 1]:
                tokens = model.model.embed_tokens(row)
                embedded = tokens + model.model.embed_positions.weight[: EQUALS + 1]
                length = measures.RADIUS * embedded.norm()
                around = torch.cat([tokens + length * d for d in (directions, -directions)])
                held = []
                hook = model.model.layers[0].mlp.up.register_forward_hook(
                    lambda _, __, out, held=held: held.append(out[:, EQUALS])
                )
                model(inputs_embeds=around.view(32, 5, 8))
                hook.remove()
                above = held[0] > 0
                counts.append(int((above.any(0) & ~above.all(0)).sum()))
        assert found["local_complexity"][index] == pytest.approx(np.mean(counts))


def test_no_dropout_leaves_the_accuracy_as_it_is(monkeypatch):
    monkeypatch.setattr(measures, "DROPOUT", 0.0)
    shown = Shown(Perturbations)
    np.testing.assert_allclose(shown.found["dropout_accuracy"], shown.found["train_acc"])
    assert shown.found["dropout_variance"].tolist() == [0, 0]


def test_learning_coefficient_of_a_quadratic_loss(monkeypatch):
    """n beta E[L] - L of a Gaussian is half the dimensions that the loss bends, each weighed."""
    monkeypatch.setattr(measures, "SAMPLER_STEPS", 1500)
    monkeypatch.setattr(measures, "SAMPLER_BURN_IN", 100)
    monkeypatch.setattr(measures, "SAMPLER_RATE", 1e-4)
    recorder = LearningCoefficient.__new__(LearningCoefficient)
    recorder._count = 50
    beta = 50 / math.log(50)
    curvature = torch.tensor([100.0, 100.0, 0.0])

    class Quadratic:
        def with_losses(self, weights):
            return 0.5 * (curvature * weights**2).sum(1), curvature * weights

    recorder._gradient = Quadratic()
    now = type("Now", (), {"weights": {"w": torch.zeros(1, 3)}, "losses": torch.zeros(1)})
    found = float(recorder.measure(now)["learning_coefficient"])
    expected = beta * 0.5 * 2 * 100 / (beta * 100 + measures.LOCALISATION)
    assert found == pytest.approx(expected, rel=0.2)


def test_learning_coefficients_are_finite_and_alike_alone(monkeypatch):
    monkeypatch.setattr(measures, "SAMPLER_STEPS", 12)
    monkeypatch.setattr(measures, "SAMPLER_BURN_IN", 4)
    both = Shown(LearningCoefficient).found["learning_coefficient"]
    alone = Shown(LearningCoefficient, seeds=[8]).found["learning_coefficient"]
    assert np.isfinite(both).all()
    assert alone[0] == pytest.approx(both[1], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kind", [Gradients, TangentKernel, Perturbations])
def test_a_seed_alone_gives_what_it_gives_in_company(kind):
    both, alone = Shown(kind).found, Shown(kind, seeds=[8]).found
    for name, values in alone.items():
        assert values[0] == pytest.approx(both[name][1], rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("kind", [Gradients, TangentKernel])
def test_a_resumed_recorder_goes_on(kind):
    shown = Shown(kind)
    state = {name: tensor.clone() for name, tensor in shown.recorder.state().items()}
    resumed = kind(shown.stack)
    resumed.load_state(state)
    shown.stack.update()
    expected = shown.measure()
    shown.observer.recorders = (resumed,)
    again = shown.measure()
    for name in expected.keys() - {"prediction_change"}:
        assert np.array_equal(expected[name], again[name]), name


def test_models_with_loops_have_no_inner_columns():
    config = {"layers": 2, "cycles": 2, "inner_steps": 1}
    for kind in (TangentKernel, Perturbations):
        shown = Shown(kind, model=config)
        assert not activations.shows_activations(shown.stack)
        assert shown.recorder.measure(None) == {}
