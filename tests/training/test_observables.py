"""Each observable, against plain loops over one member's own Hugging Face model."""

import math

import numpy as np
import pytest
import torch
from training_builders import (
    EQUALS,
    equations,
    lively_model,
    own_loss,
    small_config,
    stacked,
    train_together,
)

from gmb_hf.base.errors import InputError
from gmb_hf.training import observables as measures
from gmb_hf.training.observables import (
    EMBEDDING,
    HEAD,
    NOISE_SCALE,
    QUANTILES,
    Observer,
)
from gmb_hf.training.recorders import Recorder, Seldom
from gmb_hf.training.stacked import SeedStack, task_data

SEEDS = (3, 8)
CASES = {
    "one layer": {},
    "tied, two layers": {"model": {"layers": 2, "tied": True, "activation": "gelu_new"}},
    "wrong labels": {"task": {"prime": 7, "corruption_rate": 0.25}},
    "more channels than tokens": {"model": {"width": 12}, "task": {"prime": 3}},
}


class Measured:
    """Two lively models as a stack, what was observed of it, and the models themselves."""

    def __init__(self, sections, dtype=torch.float64):
        self.config = small_config(**sections)
        self.models = {seed: lively_model(self.config, seed, dtype) for seed in SEEDS}
        self.stack = stacked(self.config, self.models, dtype)
        self.observer = Observer(self.stack)
        self.found = self.measure()

    def measure(self):
        return self.observer.measure(*self.stack.gradients(keep_logits=True))

    def __iter__(self):
        """For every member: seed, model, and its row of what was observed."""
        for index, (seed, model) in enumerate(self.models.items()):
            yield seed, model, {name: values[index] for name, values in self.found.items()}

    @torch.no_grad()
    def logits(self, seed, split, **inputs):
        """Logits of a member at EQ, numpy [rows, V]."""
        given = inputs or {"input_ids": equations(self.config, seed, split)[0]}
        return self.models[seed](**given).logits[:, EQUALS].numpy()

    def answers(self, seed, split):
        """The answers that the rows carry, numpy [rows]."""
        return equations(self.config, seed, split)[1][:, EQUALS + 1].numpy()


@pytest.fixture(params=CASES.values(), ids=CASES.keys(), scope="module")
def measured(request):
    return Measured(request.param)


def test_every_observable_is_one_finite_float64_per_seed(measured):
    expected = {
        *("train_loss", "test_loss", "train_acc", "test_acc", "weight_norm", "embedding_norm"),
        *("unembedding_norm", "attention_norm", "mlp_norm", "gradient_norm", "update_norm"),
        *("embedding_entropy", "unembedding_entropy", "attention_entropy", "embedding_rank"),
        *("unembedding_rank", "attention_rank", "embedding_gini", "unembedding_gini"),
        *("participation_ratio", "train_margin_q10", "train_margin_q50", "train_margin_q90"),
        *("test_margin_q10", "test_margin_q50", "test_margin_q90", "curvature", "disagreement"),
        *("prediction_change", "restricted_loss", "excluded_loss"),
    }
    if measured.config.task.corruption_rate:
        expected.add("correction_rate")
    assert measured.found.keys() == expected
    for name, values in measured.found.items():
        assert values.dtype == np.float64, name
        assert values.shape == (2,), name
        assert np.isfinite(values).all(), name


@pytest.mark.parametrize("split", ["train", "test"])
def test_losses_accuracies_and_margins(measured, split):
    for seed, _, found in measured:
        losses, margins, right = [], [], []
        for row, answer in zip(
            measured.logits(seed, split), measured.answers(seed, split), strict=True
        ):
            others = [logit for token, logit in enumerate(row) if token != answer]
            losses.append(math.log(sum(math.exp(logit) for logit in row)) - row[answer])
            margins.append(row[answer] - max(others))
            right.append(int(np.argmax(row)) == answer)
        assert found[f"{split}_loss"] == pytest.approx(np.mean(losses), rel=1e-11)
        assert found[f"{split}_acc"] == pytest.approx(np.mean(right))
        for q in QUANTILES:
            expected = np.quantile(margins, q)
            assert found[f"{split}_margin_q{100 * q:.0f}"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 7, 588])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantiles_are_those_of_torch(count, dtype):
    values = torch.randn(3, count, dtype=dtype, generator=torch.Generator().manual_seed(count))
    values[1, 0] = math.nan
    values[2] = values[2].round()
    at = torch.tensor(QUANTILES, dtype=dtype)
    expected = torch.quantile(values, at, dim=1)
    found = measures.quantiles(values, QUANTILES)
    assert found.dtype == dtype
    assert torch.equal(found.nan_to_num(9), expected.nan_to_num(9))
    assert found[:, 1].isnan().all()


def test_an_answer_that_ties_with_another_is_not_right():
    measured = Measured({})
    with torch.no_grad():
        measured.stack.weights[HEAD].zero_()
    found = measured.measure()
    assert found["train_acc"].tolist() == found["test_acc"].tolist() == [0.0, 0.0]
    assert found["train_margin_q90"].tolist() == [0.0, 0.0]
    assert found["test_loss"] == pytest.approx(math.log(9))  # V = p + 4


def test_norms_of_weights_and_gradient(measured):
    def norm(tensors):
        return math.sqrt(sum(float(np.square(t.detach().numpy()).sum()) for t in tensors))

    for seed, model, found in measured:
        model.zero_grad()
        own_loss(model, measured.config, seed)[0].backward()
        blocks = model.model.layers
        expected = {
            "weight_norm": norm(model.parameters()),
            "embedding_norm": norm([model.get_input_embeddings().weight]),
            "unembedding_norm": norm([model.get_output_embeddings().weight]),
            "attention_norm": norm([p for b in blocks for p in b.attention.parameters()]),
            "mlp_norm": norm([p for b in blocks for p in b.mlp.parameters()]),
            "gradient_norm": norm([p.grad for p in model.parameters()]),
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-10)


def test_update_norm_is_that_of_the_step_before():
    config = small_config(model={"layers": 2})
    stack = SeedStack(config, SEEDS, dtype=torch.float64)
    observer = Observer(stack)
    first = observer.measure(*stack.gradients(keep_logits=True))
    assert first["update_norm"].tolist() == [0.0, 0.0]
    for _ in range(3):
        before = {name: weight.detach().clone() for name, weight in stack.weights.items()}
        train_together(stack, 1)
        found = observer.measure(*stack.gradients(keep_logits=True))
        moved = [w.detach() - before[name] for name, w in stack.weights.items()]
        expected = torch.cat([change.flatten(1) for change in moved], dim=1).norm(dim=1)
        assert found["update_norm"] == pytest.approx(expected.numpy(), rel=1e-9)


def test_updates_may_be_given():
    measured = Measured({})
    losses, logits = measured.stack.gradients(keep_logits=True)
    updates = {name: torch.ones_like(w) for name, w in measured.stack.weights.items()}
    found = measured.observer.measure(losses, logits, updates)
    count = sum(weight[0].numel() for weight in measured.stack.weights.values())
    assert found["update_norm"] == pytest.approx(math.sqrt(count))


def test_spectral_entropies_and_effective_ranks(measured):
    for _, model, found in measured:
        matrices = {
            "embedding": model.get_input_embeddings().weight,
            "unembedding": model.get_output_embeddings().weight,
            "attention": torch.cat([b.attention.qkv.weight for b in model.model.layers]),
        }
        for part, matrix in matrices.items():
            singular = torch.linalg.svdvals(matrix.detach()).numpy()
            share = singular[singular > 0] / singular.sum()
            entropy = -sum(p * math.log(p) for p in share)
            # The Gram matrix halves the digits of a singular value that is zero.
            assert found[f"{part}_entropy"] == pytest.approx(entropy, abs=1e-6)
            assert found[f"{part}_rank"] == pytest.approx(math.exp(entropy), rel=1e-6)
            assert 1 <= found[f"{part}_rank"] <= min(matrix.shape) + 1e-6


def test_effective_rank_counts_equal_singular_values():
    measured = Measured({})
    embedding = measured.stack.weights[EMBEDDING]
    with torch.no_grad():
        embedding[0] = 0.3 * torch.eye(*embedding.shape[1:])
        embedding[1] = 1.0  # rank one
    ranks = measured.measure()["embedding_rank"]
    assert ranks == pytest.approx([8.0, 1.0], rel=1e-5)


def gini(values):
    """Half the relative mean absolute difference of all pairs."""
    return np.abs(np.subtract.outer(values, values)).mean() / (2 * np.mean(values))


def test_fourier_gini(measured):
    prime = measured.config.task.prime
    for _, model, found in measured:
        for part, layer in (
            ("embedding", model.get_input_embeddings()),
            ("unembedding", model.get_output_embeddings()),
        ):
            matrix = layer.weight.detach().numpy()[:prime]
            spectrum = np.fft.rfft(matrix, axis=0)[1:]  # without the mean
            power = (np.abs(spectrum) ** 2).sum(1)
            assert found[f"{part}_gini"] == pytest.approx(gini(power), abs=1e-10)


def test_fourier_gini_of_one_frequency_and_of_all_alike():
    measured = Measured({"task": {"prime": 7}})
    embedding = measured.stack.weights[EMBEDDING]
    residues = torch.arange(7, dtype=torch.float64)
    with torch.no_grad():
        embedding[0, :7] = torch.cos(2 * math.pi * 2 * residues / 7)[:, None]
        embedding[1, :7] = 0.0
        embedding[1, 0] = 1.0  # an impulse holds every frequency alike
    found = measured.measure()["embedding_gini"]
    assert found == pytest.approx([2 / 3, 0.0], abs=1e-9)  # (k - 1) / k of k = 3 frequencies


POWERS_OF_THREE = [1, 3, 2, 6, 4, 5]  # modulo 7


@pytest.mark.parametrize("operation", ["mul", "div"])
def test_fourier_gini_of_a_product_is_in_the_order_of_discrete_logarithms(operation):
    measured = Measured({"task": {"prime": 7, "operation": operation}})
    embedding = measured.stack.weights[EMBEDDING]
    logarithm = torch.arange(6, dtype=torch.float64)
    with torch.no_grad():
        embedding[0, 0] = 5.0  # the zero is outside the group
        embedding[0, POWERS_OF_THREE] = torch.cos(2 * math.pi * logarithm / 6)[:, None]
        embedding[1, :7] = 0.0
        embedding[1, 1] = 1.0
    found = measured.measure()["embedding_gini"]
    # Frequencies 1, 2 and 3; an impulse has half as much of the last, which has no sine.
    assert found == pytest.approx([2 / 3, gini([1, 1, 0.5])], abs=1e-9)


def test_waves_in_the_order_of_another_group_are_noise():
    residues = torch.arange(29, dtype=torch.float64)
    wave = torch.cos(2 * math.pi * 4 * residues / 29)[None, :, None]
    additive, multiplicative, none = (
        measures.fourier_gini(measures.ResidueWaves(29, group, like=wave).amplitudes(wave)).item()
        for group in ("additive", "multiplicative", None)
    )
    assert additive == none == pytest.approx(13 / 14)
    assert multiplicative < 0.7


@pytest.mark.parametrize("order", [2, 5, 28])
def test_the_waves_of_a_group_have_one_norm_and_nothing_in_common(order):
    waves = measures.fourier_basis(order).flatten(0, 1)
    waves = waves[waves.abs().sum(1) > 0]
    assert len(waves) == order - 1
    assert (waves @ waves.T).numpy() == pytest.approx(np.eye(order - 1) * order / 2, abs=1e-12)


def test_fourier_gini_without_a_frequency_is_zero():
    assert Measured({"task": {"prime": 2}}).found["embedding_gini"].tolist() == [0.0, 0.0]


def test_participation_ratio_of_the_held_out_states(measured):
    for seed, model, found in measured:
        with torch.no_grad():
            input_ids = equations(measured.config, seed, "test")[0]
            hidden = model(input_ids=input_ids, output_hidden_states=True).hidden_states[-1]
        values = np.linalg.eigvalsh(np.cov(hidden[:, EQUALS].numpy().T))
        expected = values.sum() ** 2 / (values**2).sum()
        assert found["participation_ratio"] == pytest.approx(expected, rel=1e-9)


def bend_along_gradient(model, config, seed):
    """u' H u of the training loss for the unit gradient u, by a second backward pass."""
    parameters = list(model.parameters())
    loss, _ = own_loss(model, config, seed)
    gradient = torch.autograd.grad(loss, parameters, create_graph=True)
    norm = torch.sqrt(sum((g.detach() ** 2).sum() for g in gradient))
    unit = [g.detach() / norm for g in gradient]
    slope = sum((g * u).sum() for g, u in zip(gradient, unit, strict=True))
    product = torch.autograd.grad(slope, parameters)
    return float(sum((h * u).sum() for h, u in zip(product, unit, strict=True)))


SMOOTH = {"model": {"layers": 2, "activation": "gelu_new", "width": 16}, "task": {"prime": 7}}


@pytest.mark.parametrize(("fall", "tolerance"), [(2.0**-16, 1e-3), (2.0**-7, 0.2)])
def test_curvature_is_the_second_derivative_along_the_gradient(monkeypatch, fall, tolerance):
    """A step e gives it to order e: to 0.1% where e is small, to 20% at the e that is used."""
    monkeypatch.setattr(measures, "CURVATURE_FALL", fall)
    measured = Measured(SMOOTH)
    for seed, model, found in measured:
        expected = bend_along_gradient(model, measured.config, seed)
        assert found["curvature"] == pytest.approx(expected, rel=tolerance)


def test_curvature_where_the_loss_bends_within_ever_smaller_steps():
    """In float32, as it is trained: L(w) = log(1 + exp(-k w)) at w = z / k has L'' = k^2 q (1 - q).

    With the share q = 1 / (1 + exp(z)) left to fit it falls to .0003, as memorised rows do.
    """
    z, k = (
        part.flatten()
        for part in torch.meshgrid(torch.arange(9.0), 10.0 ** torch.arange(4), indexing="ij")
    )
    weight = (z / k)[:, None]
    left = torch.sigmoid(-z)
    found = measures.curvature(
        torch.nn.functional.softplus(-z),
        {"w": weight},
        {"w": -(k * left)[:, None]},
        lambda moved: torch.nn.functional.softplus(-k * moved["w"][:, 0]),
        weight_norm=torch.full_like(z, 100.0),
        gradient_norm=k * left,
    )
    assert found.numpy() == pytest.approx((k**2 * left * (1 - left)).numpy(), rel=0.05)


def test_curvature_where_float32_shows_no_loss_or_no_slope_any_more():
    weights = {"w": torch.ones(3, 2)}
    gradients = {"w": torch.tensor([[1e-12, 0.0], [1e-42, 0.0], [3.0, 4.0]])}
    found = measures.curvature(
        torch.tensor([0.0, 1e-9, 1.0]),
        weights,
        gradients,
        lambda moved: torch.tensor([0.0, 1e-9, float(moved["w"][2].sum())]),
        weight_norm=torch.ones(3),
        gradient_norm=gradients["w"].norm(dim=1),
    )
    assert found[:2].tolist() == [0.0, 0.0]
    assert bool(torch.isfinite(found).all())


def test_curvature_and_the_rest_survive_float32():
    double, single = Measured(SMOOTH), Measured(SMOOTH, torch.float32)
    for name, values in double.found.items():
        tolerance = 2e-2 if name == "curvature" else 1e-3  # a difference of nearly equal losses
        assert single.found[name] == pytest.approx(values, rel=tolerance, abs=1e-4), name


def test_curvature_of_a_flat_loss_is_zero():
    measured = Measured({})
    losses, logits = measured.stack.gradients(keep_logits=True)
    for weight in measured.stack.weights.values():
        weight.grad.zero_()
    found = measured.observer.measure(losses, logits)
    assert found["curvature"].tolist() == found["gradient_norm"].tolist() == [0.0, 0.0]


def test_disagreement_of_a_noisy_pass(measured):
    embedding_shape = measured.stack.weights[EMBEDDING].shape[1:]
    noise = torch.randn(embedding_shape, generator=torch.Generator().manual_seed(0))
    for seed, model, found in measured:
        embedding = model.get_input_embeddings().weight.detach()
        scale = NOISE_SCALE * math.sqrt(float((embedding**2).mean()))
        input_ids = equations(measured.config, seed, "test")[0]
        predicted = measured.logits(seed, "test").argmax(-1)
        # On the input alone, also where the head is tied to it.
        states = (embedding + scale * noise.double())[input_ids]
        noisy = measured.logits(seed, "test", inputs_embeds=states).argmax(-1)
        assert found["disagreement"] == pytest.approx(np.mean(noisy != predicted))


def test_disagreement_grows_with_the_noise(monkeypatch):
    shares = []
    for scale in (0.0, 0.25, 4.0):
        monkeypatch.setattr(measures, "NOISE_SCALE", scale)
        shares.append(Measured({"task": {"prime": 7}}).found["disagreement"].mean())
    assert shares[0] == 0.0
    assert 0 < shares[1] < shares[2]


def test_prediction_change_is_against_the_checkpoint_before():
    measured = Measured({"task": {"prime": 7}})
    assert measured.found["prediction_change"].tolist() == [0.0, 0.0]
    assert measured.measure()["prediction_change"].tolist() == [0.0, 0.0]
    before = [measured.logits(seed, "test").argmax(-1) for seed in SEEDS]
    for index, seed in enumerate(SEEDS):
        measured.models[seed] = lively_model(measured.config, seed + 100)
        measured.stack.load_member(index, measured.models[seed])
    found = measured.measure()["prediction_change"]
    after = [measured.logits(seed, "test").argmax(-1) for seed in SEEDS]
    expected = [np.mean(old != new) for old, new in zip(before, after, strict=True)]
    assert found == pytest.approx(expected)
    assert min(found) > 0
    assert np.array_equal(measured.observer.predictions.numpy(), np.stack(after))


def test_correction_rate_is_accuracy_against_the_truth_on_wrong_labels():
    measured = Measured(CASES["wrong labels"])
    for seed, _, found in measured:
        data = task_data(measured.config.task, seed)
        predicted = measured.logits(seed, "train").argmax(-1)
        wrong = data.corrupted[data.train_index]
        right = predicted == data.true_answers[data.train_index, 0]
        assert wrong.sum() == 7  # a quarter of 29 rows
        assert found["correction_rate"] == pytest.approx(right[wrong].mean())


def test_correction_rate_of_a_model_that_knows_the_truth_is_one():
    measured = Measured(CASES["wrong labels"])
    losses, logits = measured.stack.gradients(keep_logits=True)
    knowing = torch.nn.functional.one_hot(measured.stack.truth, logits.shape[-1]).double()
    found = measured.observer.measure(losses, knowing)
    assert found["correction_rate"].tolist() == [1.0, 1.0]
    assert found["train_acc"] == pytest.approx(22 / 29)  # the wrong labels are missed


def test_a_seed_is_measured_alike_alone_and_in_company():
    together = Measured(SMOOTH)
    for index, seed in enumerate(SEEDS):
        stack = stacked(together.config, {seed: together.models[seed]})
        alone = Observer(stack).measure(*stack.gradients(keep_logits=True))
        for name, values in together.found.items():
            assert alone[name][0] == pytest.approx(values[index], rel=1e-7), name


def test_measuring_changes_neither_weights_nor_gradients():
    measured = Measured({})
    kept = {
        name: (weight.detach().clone(), weight.grad.clone())
        for name, weight in measured.stack.weights.items()
    }
    measured.measure()
    for name, (weight, gradient) in kept.items():
        assert torch.equal(measured.stack.weights[name], weight), name
        assert torch.equal(measured.stack.weights[name].grad, gradient), name


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_names_seed_and_step(value):
    measured = Measured({})
    measured.stack.step = 120
    with torch.no_grad():
        measured.stack.weights[EMBEDDING][1, 2] = value
    message = "seed 8: train_loss is not finite at step 120; lower training.lr or"
    with pytest.raises(InputError, match=message):
        measured.measure()


def test_an_observable_that_overflows_is_named():
    measured = Measured({})
    losses, logits = measured.stack.gradients(keep_logits=True)
    updates = {name: torch.zeros_like(w) for name, w in measured.stack.weights.items()}
    updates[EMBEDDING][0, 0, 0] = 1e200  # its square is infinite
    with pytest.raises(InputError, match="seed 3: update_norm is not finite at step 0"):
        measured.observer.measure(losses, logits, updates)


class Again(Recorder):
    """Records one column by a name that is taken."""

    column = "weight_norm"

    def measure(self, now):
        return {self.column: torch.zeros_like(now.losses)}


class Mine(Again):
    column = "mine"


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([Again], "Again: its column 'weight_norm' has the name of a usual observable"),
        ([Mine, Mine], "Mine: its column 'mine' has the name of another recorder's column"),
    ],
)
@pytest.mark.parametrize("every", [0, 5])
def test_a_recorder_overwrites_no_column(kinds, message, every):
    stack = Measured({}).stack
    recorders = [Seldom(kind(stack), every) if every else kind(stack) for kind in kinds]
    with pytest.raises(InputError, match=f"^recorder {message}; give it another name$"):
        Observer(stack, recorders).measure(*stack.gradients(keep_logits=True))
