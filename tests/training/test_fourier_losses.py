"""Restricted and excluded loss, against loops over the whole grid and against known networks."""

import math

import numpy as np
import pytest
import torch
from training_builders import equations, lively_model, small_config, stacked

from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.training.observables import KEY_FREQUENCIES, FourierLosses, Observer, places
from gmb_hf.training.stacked import task_data

ALIKE = [("add", 13), ("sub", 13), ("mul", 13), ("div", 13), ("add", 5), ("mul", 7), ("sub", 2)]


class Drawn:
    """Two splits of all pairs of a task, with random logits that lean to the answers."""

    def __init__(self, operation, prime, *, extra_tokens=4, wrong=0.0):
        self.prime = prime
        task = ModularTask(operation, prime, corruption_rate=wrong)
        self.data = [task.data(0.6, seed) for seed in (0, 1)]
        self.a, self.b = task.operands().values()
        rows = len(self.a)
        self.logits = np.random.default_rng(prime).standard_normal((2, rows, prime + extra_tokens))
        for data, logits in zip(self.data, self.logits, strict=True):
            logits[np.arange(rows), data.true_answers[:, 0]] += 2
        self.place = places(OPERATIONS[operation].group, prime)

    def split(self, values, split):
        """Of each seed the rows of a side, [2, rows, ...]."""
        index = [getattr(data, f"{split}_index") for data in self.data]
        return torch.from_numpy(np.stack([v[i] for v, i in zip(values, index, strict=True)]))

    def losses(self):
        truth = [data.true_answers[:, 0] for data in self.data]
        measure = FourierLosses(
            self.place,
            train=self.split(truth, "train"),
            test=self.split(truth, "test"),
            labels=self.split([data.answers[:, 0] for data in self.data], "train"),
            dtype=torch.float64,
        ).measure
        return measure(self.split(self.logits, "train"), self.split(self.logits, "test"))


def cross_entropy(logits, answer):
    return math.log(sum(math.exp(x) for x in logits)) - logits[answer]


def transformed(logits, sign):
    """The constant and the key terms of a grid [n, n, V] over both axes of a cyclic group.

    The waves along the sum of the axes are the terms (k, k) of the two-dimensional transform, those
    along their difference the terms (k, -k); k and -k make one frequency.
    """
    order = logits.shape[0]
    spectrum = np.fft.fft2(logits, axes=(0, 1)) / order**2
    terms, power = {}, {}
    for k in range(1, order // 2 + 1):
        terms[k] = {sense: spectrum[sense, sign * sense % order] for sense in {k, order - k}}
        # What is the same for all tokens counts for nothing: no softmax sees it.
        power[k] = sum(abs(x - term.mean()) ** 2 for term in terms[k].values() for x in term)
    key = sorted(power, key=power.get, reverse=True)[:KEY_FREQUENCIES]
    return spectrum[0, 0].real, {sense: t for k in key for sense, t in terms[k].items()}


def waves_at(terms, along, order):
    """The key waves at one pair, whose operands add up to `along`."""
    angles = {sense: 2 * math.pi * sense * along / order for sense in terms}
    return sum(
        (t * complex(math.cos(angles[k]), math.sin(angles[k]))).real for k, t in terms.items()
    )


@pytest.mark.parametrize(("operation", "prime"), ALIKE)
@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_losses_are_those_of_the_transform_of_the_whole_grid(operation, prime, wrong):
    drawn = Drawn(operation, prime, wrong=wrong)
    found = drawn.losses()
    whole = operation in ("add", "sub")
    sign = 1 if operation in ("add", "mul") else -1
    axis = list(range(prime)) if whole else drawn.place
    order = max(axis) + 1
    for seed, (data, logits) in enumerate(zip(drawn.data, drawn.logits, strict=True)):
        grid = np.full((order, order, logits.shape[1]), math.nan)
        for a, b, row in zip(drawn.a, drawn.b, logits, strict=True):
            if axis[a] >= 0 and axis[b] >= 0:
                grid[axis[a], axis[b]] = row
        assert not np.isnan(grid).any()
        constant, terms = transformed(grid, sign)
        restricted, excluded = [], []
        training = set(data.train_index.tolist())
        for row, (a, b) in enumerate(zip(drawn.a, drawn.b, strict=True)):
            waves = np.zeros(logits.shape[1])
            if axis[a] >= 0 and axis[b] >= 0:
                waves = waves_at(terms, axis[a] + sign * axis[b], order)
                restricted.append(cross_entropy(constant + waves, data.true_answers[row, 0]))
            if row in training:
                excluded.append(cross_entropy(logits[row] - waves, data.answers[row, 0]))
        assert found["restricted_loss"][seed].item() == pytest.approx(
            np.mean(restricted), abs=1e-10
        )
        assert found["excluded_loss"][seed].item() == pytest.approx(np.mean(excluded), abs=1e-10)


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("frequency", [1, 3])
def test_a_network_of_one_wave_is_kept_whole_and_removed_whole(operation, frequency):
    """Logits cos(w(s - c)): all of the loss is in the wave, and without it all tokens are alike."""
    drawn = Drawn(operation, 11, extra_tokens=0)
    place = np.array(drawn.place)
    order = place.max() + 1
    for data, logits in zip(drawn.data, drawn.logits, strict=True):
        at = place[data.true_answers[:, 0]]
        turn = 2 * math.pi * frequency / order
        logits[:] = 8 * np.cos(turn * (at[:, None] - place[None, :]))
        logits[:, place < 0] = 0  # the zero is an answer that no wave speaks of
        logits[at < 0] = 0
    found = drawn.losses()
    for seed, (data, logits) in enumerate(zip(drawn.data, drawn.logits, strict=True)):
        answers = data.true_answers[:, 0]
        whole = [
            cross_entropy(row, c) for row, c in zip(logits, answers, strict=True) if place[c] >= 0
        ]
        assert found["restricted_loss"][seed].item() == pytest.approx(np.mean(whole), abs=1e-12)
        assert found["excluded_loss"][seed].item() == pytest.approx(math.log(11), abs=1e-12)


def test_only_so_many_waves_are_key():
    """Of seven waves of different size the five largest are kept; those two stay when excluded."""
    drawn = Drawn("add", 29, extra_tokens=0)
    sizes = {2: 3.0, 3: 0.5, 5: 2.5, 6: 2.0, 7: 0.4, 11: 1.5, 13: 1.0}
    s, c = np.indices((29, 29))

    def waves(kept):
        angles = {k: 2 * math.pi * k * (s - c) / 29 for k in kept}
        return sum(sizes[k] * np.cos(angle) for k, angle in angles.items())

    drawn.logits[:] = waves(sizes)[drawn.data[0].true_answers[:, 0]]
    found = drawn.losses()
    for name, kept in (("restricted_loss", (2, 5, 6, 11, 13)), ("excluded_loss", (3, 7))):
        expected = cross_entropy(waves(kept)[0], 0)  # all rows are alike
        assert found[name].tolist() == pytest.approx([expected] * 2, abs=1e-12)


def test_what_all_tokens_share_does_not_choose_the_waves():
    drawn = Drawn("sub", 13)
    before = drawn.losses()
    shared = 50 * np.cos(2 * math.pi * 6 * (drawn.a - drawn.b) / 13)
    drawn.logits += shared[None, :, None]
    after = drawn.losses()
    for name in before:
        assert after[name] == pytest.approx(before[name].numpy(), abs=1e-11)


def test_places_are_where_the_operation_adds():
    for operation, sign in (("mul", 1), ("div", -1)):
        place = places(OPERATIONS[operation].group, 13)
        assert place[0] == -1
        assert sorted(place) == list(range(-1, 12))
        task = ModularTask(operation, 13)
        for a, b, c in zip(*task.operands().values(), task.answers()[:, 0], strict=True):
            if a and b:
                assert place[c] == (place[a] + sign * place[b]) % 12
    assert places("additive", 5) == [0, 1, 2, 3, 4]
    assert places(None, 7) is places("multiplicative", 2) is None


@pytest.mark.parametrize("operation", ["add", "mul", "sq_sum"])
def test_an_observer_measures_them_where_there_is_a_direction(operation):
    config = small_config(task={"operation": operation, "prime": 7, "corruption_rate": 0.25})
    models = {seed: lively_model(config, seed) for seed in (3, 8)}
    stack = stacked(config, models)
    found = Observer(stack).measure(*stack.gradients(keep_logits=True))
    if operation == "sq_sum":
        assert not {"restricted_loss", "excluded_loss"} & found.keys()
        return
    data = [task_data(config.task, seed) for seed in models]
    logits = {}
    for split in ("train", "test"):
        said = [m(input_ids=equations(config, s, split)[0]).logits for s, m in models.items()]
        logits[split] = torch.stack(said)[:, :, 4].detach()
    answers = [torch.from_numpy(item.true_answers[:, 0]) for item in data]
    expected = FourierLosses(
        places(OPERATIONS[operation].group, 7),
        train=torch.stack([c[i.train_index] for c, i in zip(answers, data, strict=True)]),
        test=torch.stack([c[i.test_index] for c, i in zip(answers, data, strict=True)]),
        labels=torch.stack([torch.from_numpy(i.answers[i.train_index, 0]) for i in data]),
        dtype=torch.float64,
    ).measure(logits["train"], logits["test"])
    for name, values in expected.items():
        assert found[name] == pytest.approx(values.numpy(), rel=1e-10), name
