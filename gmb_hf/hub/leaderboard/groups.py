"""Which scores of a class the events of a panel tell apart.

Two scores are compared on the same events: those that one of them detects and the other does not
decide (McNemar's exact test). P-values are Holm-adjusted over all pairs of a class, so that readers
may look at any pair. A group is what the events do not tell apart from its leader; two others of a
group may well be told apart from each other, since paired events decide and not rates alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from gmb_hf.base.errors import InputError
from gmb_hf.base.stats import holm

LEVEL = 0.05
"""Of the tests, after adjustment."""


@dataclass(frozen=True, eq=False)
class Groups:
    """S scores of one class, best first, on the same E events.

    Attributes:
        detected: bool [S, E], whether each score detects each event.
    """

    detected: NDArray[np.bool_]

    @classmethod
    def of(cls, detected: ArrayLike) -> Groups:
        """Those of a table [S, E] of true and false, or of 1 and 0.

        Raises:
            InputError: the scores have not all the same events.
        """
        try:
            found = np.asarray(detected, dtype=np.bool_)
        except ValueError:
            found = np.empty(0, dtype=np.bool_)
        if found.ndim != 2:
            raise InputError(
                "scores are compared on the same events: give a table [scores, events]"
            )
        return cls(found)

    @cached_property
    def p_adjusted(self) -> NDArray[np.float64]:
        """Of each two scores the adjusted p-value of McNemar's exact test, [S, S]; 1 with itself.

        >>> Groups.of([[1] * 6, [0] * 6, [0] * 6]).p_adjusted[0]
        array([1.     , 0.09375, 0.09375])
        """
        ours = self.detected.astype(np.int64)
        only = ours @ (1 - ours).T  # events that the row detects and the column does not
        differ = only + only.T
        p_values = np.minimum(1.0, 2 * bdtr(np.minimum(only, only.T), differ, 0.5))
        first, second = np.triu_indices(len(ours), k=1)
        found = np.ones(p_values.shape)
        found[first, second] = found[second, first] = holm(p_values[first, second].tolist())
        return found

    @cached_property
    def apart(self) -> NDArray[np.bool_]:
        """Which two scores are told apart, bool [S, S]."""
        return self.p_adjusted <= LEVEL

    @cached_property
    def letters(self) -> list[str]:
        """The groups of each score: `a` is led by the best score, each next letter by the first
        score that is told apart from all earlier leaders.

        >>> Groups.of([[1] * 20, [0, 0] + [1] * 18, [0] * 20]).letters
        ['a', 'a', 'b']
        """
        leaders: list[int] = []
        for score in range(len(self.detected)):
            if all(self.apart[leader, score] for leader in leaders):
                leaders.append(score)
        return [
            "".join(
                _letter(place)
                for place, leader in enumerate(leaders)
                if not self.apart[leader, score]
            )
            for score in range(len(self.detected))
        ]


def _letter(place: int) -> str:
    """a to z, then a2 to z2, and so on."""
    turn, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")
