"""What weights and updates show, against plain numpy over one member's own weights."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from child_processes import Interrupted, interrupting
from training_builders import small_config, train_together

from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import seeds as chosen
from gmb_hf.training import seeds as training
from gmb_hf.training import spectra
from gmb_hf.training.activations import CopyingHeads
from gmb_hf.training.observables import Observer, ResidueWaves, fourier_basis
from gmb_hf.training.recorders import Recorder, Seldom
from gmb_hf.training.seeds import recorders_of
from gmb_hf.training.spectra import BINS, LEAST_TAIL, CostlySpectra, Spectra
from gmb_hf.training.stacked import SeedStack

CONFIG = small_config(training={"observables": "published"})
SEEDS = (3, 8, 5)


class Trained:
    """A stack at several checkpoints: what was measured, and each member's weights then."""

    def __init__(self, config=CONFIG, seeds=SEEDS, checkpoints=4, every=2, kinds=(Spectra,)):
        self.stack = SeedStack(config, seeds, dtype=torch.float64)
        self.observer = Observer(self.stack, [kind(self.stack) for kind in kinds])
        self.found, self.weights, self.updates = [], [], []
        for checkpoint in range(checkpoints):
            if checkpoint:
                train_together(self.stack, every)
            self.updates.append(self.of_members(self.stack.last_updates()))
            self.found.append(self.observer.measure(*self.stack.gradients(keep_logits=True)))
            self.weights.append(self.of_members(self.stack.weights))

    def of_members(self, tensors):
        """For each member name -> numpy, copied."""
        return [
            {name: tensor[i].detach().numpy().copy() for name, tensor in tensors.items()}
            for i in range(len(self.stack))
        ]

    def column(self, name):
        """[checkpoints, S]."""
        return np.stack([found[name] for found in self.found])


@pytest.fixture(scope="module")
def trained():
    return Trained()


@pytest.fixture(scope="module")
def deep():
    return Trained(small_config(model={"layers": 2}), seeds=(3, 8), checkpoints=2)


@pytest.fixture(scope="module")
def everything():
    return Trained(checkpoints=2, kinds=(CostlySpectra,))


def flat(weights):
    return np.concatenate([weight.ravel() for weight in weights.values()])


def test_what_is_recorded_is_chosen_by_the_config():
    def kinds(observables):
        config = small_config(training={"observables": observables})
        return [type(one) for one in recorders_of(SeedStack(config, [3]))]

    assert kinds("usual") == [CopyingHeads]
    assert kinds("published") == [CopyingHeads, *chosen.CHEAP]
    assert kinds("all") == [CopyingHeads, *chosen.CHEAP, *(Seldom for _ in chosen.DEAR)]


def parts(weights):
    """The matrices of one member, by short names, as numpy reads them from its state dict."""
    found = {"embedding": weights["model.embed_tokens.weight"]}
    layers = sum(name.endswith("qkv.weight") for name in weights)
    for layer in range(layers):
        start = f"model.layers.{layer}."
        qkv = np.split(weights[f"{start}attention.qkv.weight"], 3)
        found |= {f"{part}{layer}": each for part, each in zip("qkv", qkv, strict=True)}
        found[f"o{layer}"] = weights[f"{start}attention.out.weight"]
        found[f"up{layer}"] = weights[f"{start}mlp.up.weight"]
        found[f"down{layer}"] = weights[f"{start}mlp.down.weight"]
    if "lm_head.weight" in weights:
        found["head"] = weights["lm_head.weight"]
    return found


def attention(weights):
    return {name: w for name, w in parts(weights).items() if name[0] in "qkvo"}


def members(trained):
    """For each checkpoint and member: weights, updates, found, and the member's weights so far."""
    for t, (weights, updates) in enumerate(zip(trained.weights, trained.updates, strict=True)):
        for s in range(len(trained.stack)):
            found = {name: values[s] for name, values in trained.found[t].items()}
            yield weights[s], updates[s], found, [past[s] for past in trained.weights[: t + 1]]


def entropy(shares):
    return -sum(p * math.log(p) for p in shares if p > 0)


def test_movement_from_the_start(trained):
    for weights, _, found, past in members(trained):
        now, start = flat(weights), flat(past[0])
        assert found["initial_distance"] == pytest.approx(np.linalg.norm(now - start))
        assert found["initial_distance_max"] == pytest.approx(np.abs(now - start).max())
        cosine = now @ start / np.linalg.norm(now) / np.linalg.norm(start)
        assert found["initial_cosine"] == pytest.approx(cosine)


def ranks(weights):
    """Effective rank over the largest there could be, and stable rank: means over matrices."""
    effective, stable = [], []
    for matrix in parts(weights).values():
        singular = np.linalg.svd(matrix, compute_uv=False)
        effective.append(math.exp(entropy(singular / singular.sum())) / len(singular))
        stable.append((singular**2).sum() / singular[0] ** 2)
    return np.mean(effective), np.mean(stable)


def test_singular_values_of_all_matrices(trained):
    for weights, _, found, _ in members(trained):
        effective, stable = ranks(weights)
        assert found["weight_effective_rank"] == pytest.approx(effective, rel=1e-6)
        assert found["stable_rank"] == pytest.approx(stable, rel=1e-9)


def test_a_matrix_of_fewer_rows_than_the_width_has_fewer_singular_values():
    wide = Trained(small_config(task={"prime": 3}, model={"width": 12}), checkpoints=2)
    for weights, _, found, _ in members(wide):
        assert min(len(matrix) for matrix in parts(weights).values()) < 12
        effective, stable = ranks(weights)
        assert found["weight_effective_rank"] == pytest.approx(effective, rel=1e-6)
        assert found["stable_rank"] == pytest.approx(stable, rel=1e-9)


def test_commutator_and_gap_of_the_first_block(deep):
    for weights, _, found, _ in members(deep):
        matrix = parts(weights)
        q, k = matrix["q0"], matrix["k0"]
        assert found["attention_commutator"] == pytest.approx(np.linalg.norm(q @ k - k @ q))
        singular = np.linalg.svd(q, compute_uv=False)
        assert found["query_gap"] == pytest.approx(singular[0] - singular[1], rel=1e-6)


def test_updates(trained):
    for _, updates, found, _ in members(trained):
        sizes = np.abs(flat(updates))
        if not sizes.any():
            assert found["update_entropy"] == found["update_top_share"] == 0
            continue
        counts = np.histogram(sizes, BINS)[0]
        assert found["update_entropy"] == pytest.approx(entropy(counts / counts.sum()), abs=1e-3)
        squares = [np.linalg.svd(m, compute_uv=False) ** 2 for m in parts(updates).values()]
        share = np.mean([each[0] / each.sum() for each in squares])
        assert found["update_top_share"] == pytest.approx(share, rel=1e-6)


def test_entropies_of_the_weights(trained):
    for weights, _, found, _ in members(trained):
        values = flat(weights)
        expected = -sum(abs(w) * math.log(abs(w)) for w in values if w)
        assert found["weight_entropy"] == pytest.approx(expected)
        counts = np.histogram(weights["lm_head.weight"], BINS)[0]
        found_entropy = found["unembedding_weight_entropy"]
        assert found_entropy == pytest.approx(entropy(counts / counts.sum()), abs=0.02)
        step = CONFIG.model.initializer_range / 2
        counts = Counter(round(w / step) for w in values)
        length = len(values) * entropy([n / len(values) for n in counts.values()])
        assert found["compressed_length"] == pytest.approx(length)


def test_masks_of_large_weights(trained):
    def mask(weights):
        order = np.argsort(np.abs(flat(weights)))
        return set(order[-math.ceil(0.4 * len(order)) :])

    for _, _, found, past in members(trained):
        now, before = mask(past[-1]), mask(past[-2] if len(past) > 1 else past[-1])
        distance = 1 - len(now & before) / len(now | before)
        assert found["mask_distance"] == pytest.approx(distance, abs=1e-9)


def test_windows_of_snapshots(deep, monkeypatch):
    monkeypatch.setattr(spectra, "SNAPSHOTS", 6)  # more than the window is forgotten
    monkeypatch.setattr(spectra, "EDGE_WINDOW", 3)
    monkeypatch.setattr(spectra, "LOCK_WINDOW", 4)
    trained = Trained(deep.stack.config, seeds=(3,), checkpoints=8, every=1)
    for _, _, found, past in members(trained):
        shares = []
        for name in ("q1", "k1", "v1", "o1"):
            stack = np.stack([parts(weights)[name].ravel() for weights in past[-6:]])
            variances = np.linalg.svd(stack - stack.mean(0), compute_uv=False) ** 2
            shares.append(variances[0] / variances.sum() if len(past) > 1 else 1)
        assert found["trajectory_pc1"] == pytest.approx(np.mean(shares))
        snapshots = [np.concatenate([m.ravel() for m in attention(w).values()]) for w in past]
        steps = np.diff(np.stack(snapshots), axis=0)
        three = [*np.linalg.svd(steps[-3:], compute_uv=False), 0, 0, 0]
        assert found["spectral_edge_gap"] == pytest.approx(three[1] ** 2 - three[2] ** 2, rel=1e-6)
        if len(past) < 4:
            continue
        scores = [three[j] ** 2 / three[j + 1] for j in (0, 1)]
        k = int(np.argmax(scores))
        assert found["spectral_edge_ratio"] == pytest.approx(three[k] / three[k + 1], rel=1e-6)
        four = np.linalg.svd(steps[-4:], compute_uv=False)
        assert found["increment_lock_in"] == pytest.approx(four[1] / four[2], rel=1e-6)


def test_young_windows_have_neutral_values(trained):
    for name, values in {
        "trajectory_pc1": [1, 1],
        "spectral_edge_gap": [0, 0],
        "spectral_edge_ratio": [1, 1],
        "increment_lock_in": [1, 1, 1],
    }.items():
        found = trained.column(name)[: len(values)]
        np.testing.assert_allclose(found, np.tile(values, (3, 1)).T, rtol=1e-9, err_msg=name)


def test_an_edge_by_hand():
    singular = torch.tensor([4.0, 3.0, 1.0, 0.9], dtype=torch.float64)
    gap, ratio = spectra.edge(torch.diag(singular**2)[None])
    assert gap.item() == pytest.approx(9 - 1)
    assert ratio.item() == pytest.approx(3)  # 3 (3 / 1) is more than 4 (4 / 3) and 1 (1 / 0.9)
    assert spectra.lock_in(torch.diag(singular**2)[None]).item() == pytest.approx(3)


def fitted_tail(eigenvalues):
    """The exponent by a loop over all x_min, as in Clauset et al."""
    x, best = np.sort(eigenvalues), (math.inf, None)
    for start in range(len(x) - min(LEAST_TAIL, len(x)) + 1):
        tail = x[start:]
        exponent = 1 + len(tail) / np.log(tail / tail[0]).sum()
        cumulative = 1 - (tail / tail[0]) ** (1 - exponent)
        distance = np.abs(cumulative - np.arange(len(tail)) / len(tail)).max()
        best = min(best, (distance, exponent))
    return best[1]


def test_power_law_of_the_largest_eigenvalues(trained):
    rng = np.random.default_rng(1)
    laws = rng.pareto(1.5, (3, 32)) + 1
    found = spectra.tail_exponents(torch.from_numpy(np.sort(laws)[:, ::-1].copy()))
    assert found.numpy() == pytest.approx([fitted_tail(law) for law in laws])
    for weights, _, found, _ in members(trained):
        squares = [np.linalg.svd(m, compute_uv=False) ** 2 for m in parts(weights).values()]
        mean = np.mean([fitted_tail(each) for each in squares])
        assert found["tail_exponent"] == pytest.approx(mean, rel=1e-6)


def test_fourier_measures(trained):
    for weights, _, found, _ in members(trained):
        spectrum = np.fft.rfft(weights["model.embed_tokens.weight"][:5], axis=0)[1:]
        cosine, sine = np.linalg.norm(spectrum.real, axis=1), np.linalg.norm(spectrum.imag, axis=1)
        power = cosine**2 + sine**2
        dense = [*(cosine > cosine.max() / 2), *(sine > sine.max() / 2)]
        expected = {
            "participation": (power**2).sum() / power.sum() ** 2,
            "top8": 1.0,
            "density": np.mean(dense),
            "balance": np.mean(np.minimum(cosine, sine) / np.maximum(cosine, sine)),
        }
        assert {name: found[f"embedding_{name}"] for name in expected} == pytest.approx(expected)


def of_waves(matrix, waves):
    found = spectra.fourier_measures(waves.amplitudes(matrix), waves.pairs)
    return {name: value.item() for name, value in found.items()}


def test_fourier_measures_of_one_wave():
    basis = fourier_basis(29)
    one = torch.zeros(1, 29, 4, dtype=torch.float64)
    one[0, :, 0] = basis[0, 2] + 0.5 * basis[1, 2]
    found = of_waves(one, ResidueWaves(29, like=one))
    assert found["participation"] == pytest.approx(1)
    assert found["top8"] == pytest.approx(1)
    assert found["density"] == pytest.approx(2 / 28)


def test_the_highest_frequency_of_a_product_has_no_sine():
    residues = torch.arange(5, dtype=torch.float64)
    impulse = (residues == 1).double()[None, :, None]
    found = of_waves(impulse, ResidueWaves(5, "multiplicative", like=impulse))
    # Of the group of order 4: cosines 1 and 1 / sqrt 2, no sines.
    assert found == pytest.approx(
        {"participation": (1 + 0.25) / 1.5**2, "top8": 1.0, "density": 2 / 3, "balance": 0.0}
    )


def graph(weights):
    """Edges unit by unit: the residual stream first, then all others as they are met."""
    matrix = parts(weights)
    width = matrix["embedding"].shape[1]
    edges = []

    def units(count):
        known = max((max(edge[:2]) for edge in edges), default=width - 1) + 1
        return range(known, known + count)

    def connect(places, reading):
        for unit, row in zip(places, reading, strict=True):
            edges.extend((unit, channel, abs(w)) for channel, w in enumerate(row))

    connect(units(len(matrix["embedding"])), matrix["embedding"])
    for layer in range(sum(name.startswith("up") for name in matrix)):
        for part in "qk":
            connect(units(width), matrix[f"{part}{layer}"])
        value, hidden = units(width), None
        connect(value, matrix[f"v{layer}"])
        connect(value, matrix[f"o{layer}"].T)
        hidden = units(len(matrix[f"up{layer}"]))
        connect(hidden, matrix[f"up{layer}"])
        connect(hidden, matrix[f"down{layer}"].T)
    connect(units(len(matrix["head"])), matrix["head"])
    size = max(max(edge[:2]) for edge in edges) + 1
    adjacent = np.zeros((size, size))
    for one, other, weight in edges:
        adjacent[one, other] += weight
        adjacent[other, one] += weight
    return adjacent


def test_connectivity_of_the_graph_of_weights(everything):
    for weights, _, found, _ in members(everything):
        adjacent = graph(weights)
        laplacian = np.diag(adjacent.sum(0)) - adjacent
        second = np.linalg.eigvalsh(laplacian)[1]
        assert found["fiedler_value"] == pytest.approx(second, rel=1e-6)


def test_connectivity_by_hand():
    path = torch.tensor([[[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]])
    assert spectra.fiedler_value(path).item() == pytest.approx(1)  # 0, 1, 3
    apart = torch.tensor([[[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]])
    assert spectra.fiedler_value(apart).item() == pytest.approx(0, abs=1e-6)


def test_a_weight_that_is_too_large_is_a_trap():
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(2, 64, 32, generator=generator, dtype=torch.float64)
    noise[1, 5, 7] = 40.0
    assert spectra.trap_counts([noise, noise.transpose(1, 2)], 32).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ({"name": "reverse_3"}, {"tied": True}),
        ({}, {"layers": 2, "cycles": 2, "inner_steps": 1}),
        ({"operation": "mul"}, {"sort_window": 2, "blend_window": 2, "band_fc1": 4}),
    ],
)
def test_other_tasks_and_models_show_what_makes_sense_of_them(task, model):
    config = small_config(task=task, model=model)
    trained = Trained(config, SEEDS[:2], checkpoints=2, kinds=(Spectra, CostlySpectra))
    fourier = {name for name in trained.found[0] if name.startswith("embedding_")}
    assert ("embedding_balance" in fourier) == ("name" not in task)
    for found in trained.found:
        assert {"tail_exponent", "fiedler_value", "correlation_traps"} <= found.keys()


def test_a_seed_alone_shows_what_it_shows_among_others(trained):
    alone = Trained(seeds=SEEDS[1:2])
    for name in trained.found[-1]:
        np.testing.assert_allclose(
            alone.column(name)[:, 0], trained.column(name)[:, 1], 1e-6, 1e-9, err_msg=name
        )


class Counted(Recorder):
    """How often it was asked: a costly observable whose value is known."""

    def __init__(self, stack):
        self.times = 0

    def measure(self, now):
        self.times += 1
        return {"times": torch.full((len(now.stack),), float(self.times))}

    def state(self):
        times = torch.tensor(self.times)
        return {"times": times, "same": times}

    def load_state(self, tensors):
        self.times = int(tensors["times"])


def test_an_interrupted_training_ends_with_the_same_log(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SAVE_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(chosen, "CHEAP", (Spectra,))
    monkeypatch.setattr(chosen, "DEAR", (Counted,))
    config = CONFIG.changed(["training.observables=all", "training.dear_every=2"])
    (whole,) = training.train_stacked(config, SEEDS, tmp_path / "whole")
    times = RunLog.read(whole).panel("times").values
    np.testing.assert_array_equal(times, [[1, 1, 2, 2, 3]] * 3)  # repeated between
    with pytest.raises(Interrupted):
        training.train_stacked(
            config, SEEDS, tmp_path / "cut", listener=interrupting("advanced", 13)
        )
    (cut,) = training.train_stacked(config, SEEDS, tmp_path / "cut")
    assert cut.read_bytes() == whole.read_bytes()


def test_the_single_engine_records_them_too(tmp_path, monkeypatch):
    monkeypatch.setattr(chosen, "CHEAP", (Spectra,))
    accelerator = training.launch.make_accelerator(cpu=True)
    (path,) = training.train_single(CONFIG, [3], tmp_path / "one", accelerator=accelerator)
    (stacked,) = training.train_stacked(CONFIG, [3], tmp_path / "many")
    one, many = RunLog.read(path), RunLog.read(stacked)
    assert set(one.observables) == set(many.observables)
    for name in ("initial_distance",):
        np.testing.assert_allclose(
            one.panel(name).values, many.panel(name).values, 1e-3, err_msg=name
        )
