"""A source of symbols whose entropy rate is known exactly: a Markov chain of a high order.

The logits of the next symbol x after the state s, the last m symbols, are

    logit(x | s) = scale * sum over j = 1..m of decay^((j - 1) / 2) * g_j(x | last j symbols of s)

with every g_j a table of standard normal numbers, drawn from the seed. Longer contexts matter less,
and there are `symbols` times as many of them for each symbol of length: a model with room for
more tables, or one that has seen them more often, is always a little better, so that losses fall as
powers of size and of data down to a floor that is no fit's opinion.

The state is read off the symbols themselves (the source is unifilar), so that its entropy rate is
a finite sum, H = sum of p(s) H(x | s); the entropy rate of a general hidden Markov source has no
closed form. So are the entropies H_t of a symbol after t < m others, which a model sees at
the beginning of a block. Shannon 1948, section 7; Cover and Thomas 2006, section 4.2.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import read_value
from gmb_hf.base.errors import InputError, choose
from gmb_hf.training.settings import Fraction, Positive, SettingsSection, Size, Whole

Floats = NDArray[np.float64]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Symbol 0 is written a, symbol 1 b, ..."""

_MOST_STATES = 1 << 20
_CLOSE_ENOUGH, _FAR = 1e-14, 1e-9
_AT_ONCE = 1 << 20


class SourceSettings(SettingsSection):
    """What a source is drawn from.

    Attributes:
        symbols: of its alphabet, 2 to 26.
        order: how many symbols back the next one depends on.
        scale: standard deviation of the logits of contexts of one symbol.
        decay: of their variance with every symbol more.
        seed: of the tables; another seed is another source, of another entropy.
    """

    kind: ClassVar[str] = "source"
    symbols: Size = 4
    order: Size = 8
    scale: Positive = 1.2
    decay: Fraction = 0.5
    seed: Whole = 0

    def check(self) -> None:
        if not 2 <= self.symbols <= len(LETTERS):
            raise InputError(f"symbols={self.symbols}: choose 2 to {len(LETTERS)}")
        if self.order * math.log(self.symbols) > math.log(_MOST_STATES) + 1e-9:
            raise InputError(
                f"order={self.order}: {self.symbols}^{self.order} states are more than "
                f"{_MOST_STATES:,}; choose fewer symbols or a lower order"
            )

    @property
    def text(self) -> str:
        """As `parse_source` reads it."""
        fields = (f"{name}={value}" for name, value in self)
        return "markov:" + ",".join(fields)


def parse_source(text: str) -> SourceSettings:
    """The source that a text names: `markov`, or `markov:seed=1,order=6`.

    `InputError` for another kind, an unknown field (the nearest is named) or a bad value.
    """
    kind, _, fields = text.partition(":")
    choose("kind", kind.strip(), ("markov",), where=f"--source {text}")
    known = SourceSettings.assignable()
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in fields.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--source {text}: {part!r}: write it as name=value, e.g. seed=1")
        name = choose("field", name.strip(), tuple(known), where=f"--source {text}")
        given[name] = read_value(known[name], value, where=f"--source {text}: {name}")
    return SourceSettings.parse(given, where=f"--source {text}")


class MarkovSource:
    """A source and its exact entropies.

    A state is the number with the digits of the last m symbols, the last one lowest.

    Attributes:
        settings: that it is drawn from.
        chances: p(x | s), [symbols^order, symbols].
        stationary: p(s), [symbols^order].

    `InputError` where the scale is so large that these cannot be computed.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self.settings = settings
        size, order = settings.symbols, settings.order
        states = np.arange(size**order)
        logits = np.zeros((len(states), size))
        for length in range(1, order + 1):
            random = np.random.default_rng([settings.seed, length])
            table = random.standard_normal((size**length, size))
            weight = settings.scale * settings.decay ** ((length - 1) / 2)
            logits += weight * table[states % size**length]
        grown = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.chances: Floats = grown / grown.sum(axis=1, keepdims=True)
        self.stationary = self._stationary()

    def _stationary(self) -> Floats:
        """The distribution over states that a step does not change, by repeated steps."""
        size = self.settings.symbols
        now = np.full(len(self.chances), 1 / len(self.chances))
        for _ in range(100_000):
            # State s becomes (size s + x) without its first symbol, which is summed over.
            after = (now[:, None] * self.chances).reshape(size, -1).sum(axis=0)
            gone = np.abs(after - now).sum()
            now = after / after.sum()
            if gone < _CLOSE_ENOUGH:
                break
        if gone > _FAR or self.chances.min() == 0:
            raise InputError(
                f"source.scale={self.settings.scale:g}: the source runs in circles, and its "
                "entropy cannot be computed; choose a smaller scale"
            )
        return now

    @functools.cached_property
    def _known(self) -> list[Floats]:
        """p(x | last t symbols) for t = 0..m, [symbols^t, symbols] each."""
        size = self.settings.symbols
        joint = self.stationary[:, None] * self.chances
        tables = []
        for length in range(self.settings.order + 1):
            both = joint.reshape(-1, size**length, size).sum(axis=0)
            tables.append(both / both.sum(axis=1, keepdims=True))
        return tables

    @functools.cached_property
    def entropies(self) -> Floats:
        """H_t = H(X_t | X_0 ... X_(t-1)) in nats for t = 0..m; the last one is the rate."""
        size = self.settings.symbols
        found = []
        for length, table in enumerate(self._known):
            weight = self.stationary.reshape(-1, size**length).sum(axis=0)
            found.append(-(weight[:, None] * table * np.log(table)).sum())
        return np.array(found)

    @property
    def entropy_rate(self) -> float:
        """Nats per symbol, after all symbols before it."""
        return float(self.entropies[-1])

    def block_entropy(self, block: int) -> float:
        """Nats per symbol of the best predictor that sees 1, 2, ... `block` symbols before it.

        That is what the loss of a model with blocks of this length falls to: a little more than the
        entropy rate, since the first symbols of a block have few before them.
        """
        seen = np.minimum(np.arange(1, block + 1), self.settings.order)
        return float(self.entropies[seen].mean())

    def surprisal(self, blocks: NDArray[np.int64]) -> float:
        """Mean nats that the source itself gives the symbols of blocks [n, T + 1] after the first.

        Of each symbol only those before it in its block are known, as to a model.
        """
        size, order = self.settings.symbols, self.settings.order
        total = 0.0
        context = np.zeros(len(blocks), dtype=np.int64)
        for place in range(blocks.shape[1]):
            if place:
                table = self._known[min(place, order)]
                total -= float(np.log(table[context, blocks[:, place]]).sum())
            context = (context * size + blocks[:, place]) % size ** min(place + 1, order)
        return float(total / (blocks.shape[0] * (blocks.shape[1] - 1)))

    def sample(self, count: int, random: np.random.Generator) -> NDArray[np.uint8]:
        """`count` symbols in a row, begun in a state of the stationary distribution."""
        size, states = self.settings.symbols, len(self.stationary)
        cumulated: list[list[float]] = self.chances.cumsum(axis=1)[:, :-1].tolist()
        state = int(random.choice(states, p=self.stationary))
        found = bytearray(count)
        for begin in range(0, count, _AT_ONCE):  # a list of all numbers would fill the memory
            numbers = random.random(min(_AT_ONCE, count - begin)).tolist()
            for place, number in enumerate(numbers, begin):
                symbol = bisect_right(cumulated[state], number)
                found[place] = symbol
                state = (state * size + symbol) % states
        return np.frombuffer(bytes(found), dtype=np.uint8)
