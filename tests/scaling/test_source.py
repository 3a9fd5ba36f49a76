"""A source of known entropy, against enumeration and against its own samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.scaling import source
from gmb_hf.protocol.scaling.source import MarkovSource, SourceSettings, parse_source

SMALL = MarkovSource(SourceSettings(symbols=2, order=2, seed=3))


def transition(source: MarkovSource) -> np.ndarray:
    """The matrix of states: state s becomes (size s + x) without its first symbol."""
    states, size = source.chances.shape
    matrix = np.zeros((states, states))
    for state, symbol in itertools.product(range(states), range(size)):
        matrix[state, (size * state + symbol) % states] += source.chances[state, symbol]
    return matrix


def word_chances(source: MarkovSource, length: int) -> dict[tuple[int, ...], float]:
    """The probability of every word of so many symbols, by enumeration."""
    states, size = source.chances.shape
    found = dict.fromkeys(itertools.product(range(size), repeat=length), 0.0)
    for start, word in itertools.product(range(states), found):
        state, chance = start, source.stationary[start]
        for symbol in word:
            chance *= source.chances[state, symbol]
            state = (size * state + symbol) % states
        found[word] += chance
    return found


def entropy(chances: dict[tuple[int, ...], float]) -> float:
    return -sum(chance * math.log(chance) for chance in chances.values())


def test_the_stationary_distribution_is_the_eigenvector():
    values, vectors = np.linalg.eig(transition(SMALL).T)
    one = vectors[:, np.argmin(abs(values - 1))].real
    np.testing.assert_allclose(SMALL.stationary, one / one.sum(), atol=1e-12)


def test_entropies_are_those_of_enumerated_words():
    # H(X_1 ... X_n) grows by H_(n - 1), and from the order on by the entropy rate.
    words = [0.0, *(entropy(word_chances(SMALL, length)) for length in range(1, 6))]
    expected = [*SMALL.entropies, SMALL.entropy_rate, SMALL.entropy_rate]
    np.testing.assert_allclose(np.diff(words), expected, atol=1e-10)


def test_the_floor_of_a_block_is_the_mean_over_its_places():
    h1, rate = SMALL.entropies[1:]
    assert SMALL.block_entropy(1) == pytest.approx(h1)
    assert SMALL.block_entropy(4) == pytest.approx((h1 + 3 * rate) / 4)


def test_surprisal_is_that_of_enumerated_words():
    chances, first = word_chances(SMALL, 4), word_chances(SMALL, 1)
    for word, chance in chances.items():
        expected = -math.log(chance / first[word[:1]]) / 3
        assert SMALL.surprisal(np.array([word])) == pytest.approx(expected)


@given(st.integers(0, 10**6), st.sampled_from([(2, 6), (3, 3), (5, 2), (26, 1)]))
def test_a_longer_past_never_knows_less(seed: int, size: tuple[int, int]):
    source = MarkovSource(SourceSettings(symbols=size[0], order=size[1], seed=seed))
    assert np.all(np.diff(source.entropies) <= 1e-12)
    assert 0 < source.entropy_rate < math.log(size[0])
    assert source.entropy_rate <= source.block_entropy(8) <= source.entropies[1] + 1e-12


def test_samples_have_the_entropy_and_begin_alike():
    source = MarkovSource(SourceSettings(symbols=4, order=3, seed=1))
    symbols = source.sample(40_000, np.random.default_rng(0))
    blocks = symbols[: 9 * 4000].reshape(-1, 9).astype(np.int64)
    assert source.surprisal(blocks) == pytest.approx(source.block_entropy(8), abs=0.01)
    assert np.array_equal(source.sample(100, np.random.default_rng(0)), symbols[:100])


def test_each_seed_is_another_source():
    rates = {
        MarkovSource(SourceSettings(symbols=3, order=3, seed=seed)).entropy_rate for seed in (0, 1)
    }
    assert len(rates) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("markof", "kind 'markof' is unknown; known: markov. Did you mean 'markov'"),
        ("markov:ordr=3", "field 'ordr' is unknown.*Did you mean 'order'"),
        ("markov:seed", "'seed': write it as name=value"),
        ("markov:decay=2", "decay must be less than 1, got 2.0"),
        ("markov:order=x", "expected a whole number, got 'x'"),
        ("markov:symbols=1", "symbols=1: choose 2 to 26"),
        ("markov:symbols=26,order=9", "states are more than 1,048,576"),
    ],
)
def test_bad_sources(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_source(text)


def test_a_source_that_runs_in_circles_is_refused():
    with pytest.raises(InputError, match=r"source\.scale=1000: the source runs in circles"):
        MarkovSource(SourceSettings(symbols=2, order=3, scale=1000))


def test_long_samples_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch):
    whole = SMALL.sample(1000, np.random.default_rng(4))
    monkeypatch.setattr(source, "_AT_ONCE", 300)
    assert (SMALL.sample(1000, np.random.default_rng(4)) == whole).all()


def test_the_text_of_a_source_reads_back():
    chosen = parse_source("markov:order=3, seed=7")
    assert (chosen.order, chosen.seed, chosen.symbols) == (3, 7, 4)
    assert parse_source(chosen.text) == chosen
