"""Groups that do not commute: `BOS a OP b EQ c EOS EOS`, every pair of elements once, c = a b.

Subtraction and division modulo a prime are sums of a cyclic group in other words; these are none.
Small models learn such groups by their representations (Chughtai, Chan and Nanda 2023, "A Toy Model
of Universality: Reverse Engineering How Networks Learn Group Operations"). A new group is one entry
of `GROUPS`.

The dihedral group of degree n has the symmetries of a regular polygon with n corners: rotations r0
.. r(n-1), and reflections s0 .. s(n-1), where sk is s0 and then the rotation rk. Of a product the
right factor comes first, and with indices modulo n

    ri rj = r(i+j)    ri sj = s(i+j)    si rj = s(i-j)    si sj = r(i-j)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmb_hf.base.errors import InputError, choose, positive_int
from gmb_hf.tasks import task
from gmb_hf.tasks.task import EquationTokens, Ints, Task, Vocabulary


@dataclass(frozen=True)
class GroupFamily:
    """A family of groups, one for each degree n.

    Attributes:
        order: how many elements the group of a degree has.
        elements: their names, in the order of their token ids.
        product: ids of the products of ids a and b, int64 [N] each, in the group of a degree.
        least: the smallest degree of which the group does not commute.
        usual: the degree of its name in lists of tasks.
    """

    order: Callable[[int], int]
    elements: Callable[[int], list[str]]
    product: Callable[[Ints, Ints, int], Ints]
    least: int
    usual: int


def _dihedral_product(a: Ints, b: Ints, degree: int) -> Ints:
    (reflected, turn), (also, second) = np.divmod(a, degree), np.divmod(b, degree)
    turned = np.where(reflected == 1, turn - second, turn + second) % degree
    return np.asarray(degree * (reflected ^ also) + turned, dtype=np.int64)


GROUPS: dict[str, GroupFamily] = {
    "dihedral": GroupFamily(
        order=lambda degree: 2 * degree,
        elements=lambda degree: [f"{kind}{turn}" for kind in "rs" for turn in range(degree)],
        product=_dihedral_product,
        least=3,
        usual=15,
    ),
}
"""Every family of groups by name."""


@dataclass(frozen=True)
class GroupTask(Task):
    """c = a b in a group.

    Attributes:
        group: a name in `GROUPS`.
        degree: which group of the family; `dihedral` of degree 15 has 30 elements.
        keep_pairs_together: put (a, b) and (b, a) on the same side of the split where they have
            the same product, as they have in three rows of ten of `dihedral_15` (two rotations, or
            r0 and any other): no held-out row is then a training row with its operands swapped.

    Raises:
        InputError: an unknown group, one that commutes, or more rows than fit into memory.
    """

    group: str
    degree: int = 15
    keep_pairs_together: bool = False

    def __post_init__(self) -> None:
        choose("group", self.group, tuple(GROUPS))
        positive_int("degree", self.degree)
        least = GROUPS[self.group].least
        if self.degree < least:
            what = f"degree must be at least {least} of a {self.group} group, got {self.degree}"
            raise InputError(f"{what}; smaller ones commute")
        task.check_row_count(self.name, self.order**2)

    @property
    def name(self) -> str:
        return f"{self.group}_{self.degree}"

    @property
    def order(self) -> int:
        """How many elements the group has."""
        return GROUPS[self.group].order(self.degree)

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
        return EquationTokens(residues=self.order, operation=self.order, equals=self.vocabulary.eq)

    @property
    def chance(self) -> float:
        """One of all elements, each of which is as often the answer."""
        return 1 / self.order

    def elements(self) -> list[str]:
        """The names of the elements in the order of their token ids.

        >>> GroupTask("dihedral", 3).elements()
        ['r0', 'r1', 'r2', 's0', 's1', 's2']
        """
        return GROUPS[self.group].elements(self.degree)

    def texts(self) -> list[str]:
        """Every equation as people write it, in the order of `rows`.

        >>> GroupTask("dihedral", 15).texts()[16 * 30 + 3]
        's1 * r3 = s13'
        """
        names = self.elements()
        a, b = (column.tolist() for column in self.operands().values())
        equations = zip(a, b, self.answers()[:, 0].tolist(), strict=True)
        return [f"{names[x]} * {names[y]} = {names[c]}" for x, y, c in equations]

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
        """The columns `a` and `b`, token ids of elements, a outer and b inner."""
        a, b = (axis.ravel() for axis in np.indices((self.order, self.order), dtype=np.int64))
        return {"a": a, "b": b}

    def rows(self) -> Ints:
        """`BOS a OP b EQ c EOS EOS`, int64 [order^2, 8]; the two EOS end the row and pad it."""
        a, b = self.operands().values()
        c = GROUPS[self.group].product(a, b, self.degree)
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
