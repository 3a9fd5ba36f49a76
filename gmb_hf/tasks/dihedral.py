"""Dihedral groups: `BOS a OP b EQ c EOS EOS`, every pair of symmetries of a regular polygon once.

The polygon with n corners has n rotations r0 .. r(n-1) and n reflections s0 .. s(n-1), where sk is
the reflection s0 followed by the rotation rk. A product applies its right factor first:

    ri rj = r(i+j)    ri sj = s(i+j)    si rj = s(i-j)    si sj = r(i-j)    (indices modulo n)

The group does not commute, so that it is no sum in disguise, as are the operations of modular
arithmetic that generalise. Small models learn such groups by their representations (Chughtai, Chan
and Nanda 2023, "A Toy Model of Universality: Reverse Engineering How Networks Learn Group
Operations").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.tasks import task
from gmb_hf.tasks.task import EquationTokens, Ints, Task, Vocabulary

FEWEST_CORNERS = 3
"""The smallest polygon; its group is that of all permutations of three things."""


@dataclass(frozen=True)
class DihedralTask(Task):
    """c = a b in the dihedral group of a polygon.

    Attributes:
        corners: n of the polygon; the group has 2n elements, rotations first.
        keep_pairs_together: put (a, b) and (b, a) on the same side of the split where they have
            the same product, as a quarter of the rows do (two rotations): no held-out row is then
            a training row with its operands swapped.

    Raises:
        InputError: fewer than three corners, or more rows than fit into memory.
    """

    corners: int = 15
    keep_pairs_together: bool = False

    def __post_init__(self) -> None:
        positive_int("corners", self.corners)
        if self.corners < FEWEST_CORNERS:
            raise InputError(
                f"corners must be at least {FEWEST_CORNERS}, got {self.corners}; a polygon has no "
                "fewer"
            )
        task.check_row_count(self.name, self.order**2)

    @property
    def name(self) -> str:
        return f"dihedral_{self.corners}"

    @property
    def order(self) -> int:
        """How many elements the group has."""
        return 2 * self.corners

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.order + 4, bos=self.order + 2, eos=self.order + 3, eq=self.order + 1)

    @property
    def sequence_length(self) -> int:
        return 8

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """Position 4, the equals sign, whose next token is c."""
        return (4,)

    @property
    def equation(self) -> EquationTokens:
        return EquationTokens(
            residues=self.order, operation=self.order, equals=self.vocabulary.eq, group=None
        )

    @property
    def chance(self) -> float:
        """One of 2n answers, all of which are as frequent."""
        return 1 / self.order

    def elements(self) -> list[str]:
        """The names of the elements in the order of their token ids.

        >>> DihedralTask(3).elements()
        ['r0', 'r1', 'r2', 's0', 's1', 's2']
        """
        return [f"{kind}{turn}" for kind in "rs" for turn in range(self.corners)]

    def texts(self) -> list[str]:
        """Every equation as people write it, in the order of `rows`.

        >>> DihedralTask(15).texts()[16 * 30 + 3]
        's1 * r3 = s13'
        """
        named = self.elements()
        a, b = (column.tolist() for column in self.operands().values())
        products = zip(a, b, self.answers()[:, 0].tolist(), strict=True)
        return [f"{named[x]} * {named[y]} = {named[c]}" for x, y, c in products]

    def words(self) -> dict[str, int]:
        """The elements, the signs `*` and `=`, and the special tokens."""
        special = self.vocabulary
        return {
            **{element: number for number, element in enumerate(self.elements())},
            "*": self.equation.operation,
            "=": special.eq,
            task.BOS_WORD: special.bos,
            task.EOS_WORD: special.eos,
        }

    def operands(self) -> dict[str, Ints]:
        """The columns `a` and `b`, a outer and b inner."""
        a, b = (axis.ravel() for axis in np.indices((self.order, self.order), dtype=np.int64))
        return {"a": a, "b": b}

    def rows(self) -> Ints:
        """`BOS a OP b EQ c EOS EOS` as int64 [4 n n, 8]; the two EOS end the row and pad it."""
        a, b = self.operands().values()
        reflected, turn = np.divmod(a, self.corners)
        also, second = np.divmod(b, self.corners)
        turned = np.where(reflected == 1, turn - second, turn + second) % self.corners
        c = self.corners * (reflected ^ also) + turned
        words = self.vocabulary
        columns = (words.bos, a, self.equation.operation, b, words.eq, c, words.eos, words.eos)
        return np.stack(np.broadcast_arrays(*columns), axis=1)

    def split(self, fraction: float = 0.5, data_seed: int = 42) -> tuple[Ints, Ints]:
        """Indices of the training rows and of the held-out rows; see `split_indices`."""
        if not self.keep_pairs_together:
            return super().split(fraction, data_seed)
        a, b = self.operands().values()
        products, swapped = self.answers()[:, 0], b * self.order + a
        partner = np.where(products == products[swapped], swapped, np.arange(len(a)))
        return task.split_pairs(partner, fraction, data_seed)
