"""The mixers of `gmb_hf.modeling` over the few distinct rows of `BOS a OP b EQ`.

A mixed state depends on all tokens of its window, so the rows are BOS, a (p), OP (p, by a), b (n)
and EQ (n) wherever a mixer has been; see `trunk` for what is left out before.

Shapes: S seeds, n equations, p residues, d width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gmb_hf.training.equations import Equations, TrunkLayout
from gmb_hf.training.few_keys import attend_few
from gmb_hf.training.pair_attention import PairSum

POSITIONS = 5


def row_counts(layout: TrunkLayout, equations: Equations) -> list[int]:
    """How many rows each of the five positions has once its state depends on those before it."""
    p, n = layout.residues, equations.answers.shape[1]
    return [1, p, p, n, n]


def pick_for_equations(parts: Sequence[Tensor], equations: Equations) -> tuple[Tensor, ...]:
    """The five positions as each equation sees them: [S, n, d], but BOS, which is one for all."""
    bos, a, operation, b, equals = parts
    return bos, equations.pick_first(a), equations.pick_first(operation), b, equals


def blend_sums(
    alpha: Tensor, offsets: Tensor, embedded: Sequence[Tensor]
) -> tuple[list[Tensor], PairSum, PairSum]:
    """Embeddings mixed with those before them, out_t = (1-s) e_t + s sum_d softmax(w)_d e_{t-d}.

    Args:
        alpha: of s = sigmoid(alpha), [S].
        offsets: w, [S, G]; the sum over d ends at the start of the row.
        embedded: BOS, a (p rows), OP, b (p), EQ; [S, rows, d] each.

    Returns:
        the states at BOS, a (p rows) and OP (p, by a), and those at b and at EQ as sums.
    """
    bos, a, operation, b, equals = embedded
    share = alpha.sigmoid().view(-1, 1, 1)
    mixing = share.squeeze(-1) * offsets.softmax(-1)  # [S, G]
    by_distance = list(mixing[..., None, None].unbind(1))  # G of [S, 1, 1]
    by_distance += [mixing.new_zeros(1)] * (POSITIONS - len(by_distance))
    by_distance[0] = by_distance[0] + (1 - share)
    own, one, two, three, four = by_distance[:POSITIONS]
    alone = [own * bos, own * a + one * bos, own * operation + one * a + two * bos]
    at_second = PairSum(two * a, own * b + (one * operation + three * bos))
    at_equals = PairSum(three * a, one * b + (own * equals + two * operation + four * bos))
    return alone, at_second, at_equals


def blend(
    alpha: Tensor, offsets: Tensor, embedded: Sequence[Tensor], equations: Equations
) -> list[Tensor]:
    """What `blend_sums` says, with the rows of `row_counts`."""
    alone, *sums = blend_sums(alpha, offsets, embedded)
    nothing = torch.zeros_like(alone[0])
    return [*alone, *(equations.sum_operands(*terms, nothing) for terms in sums)]


def sort(
    alpha: Tensor,
    tau: Tensor,
    parts: Sequence[Tensor],
    window: int,
    equations: Equations,
    last: bool,
) -> list[Tensor]:
    """States mixed with alike ones of their window.

    y_t = (1-s) x_t + s sum_i softmax_i(x_t.x_i exp(-tau) / sqrt(d)) x_i.

    Args:
        alpha: of s = sigmoid(alpha), [S].
        tau: [S].
        parts: the five positions, with the rows of `row_counts`.
        window: how many positions are seen, the own included.
        equations: of every seed.
        last: whether the state at EQ alone is needed.

    Returns:
        the five positions or, where `last`, EQ alone.
    """
    share, sharpness = alpha.sigmoid().view(-1, 1, 1), (-tau).exp().view(-1, 1, 1)

    def mixed(position: int, seen: Sequence[Tensor]) -> Tensor:
        state = parts[position]
        keys = tuple(seen[max(0, position + 1 - window) : position + 1])
        found = attend_few(state * sharpness, keys, keys, heads=1)
        return state + share * (found - state)

    for_equations = pick_for_equations(parts, equations)
    if last:
        return [mixed(4, for_equations)]
    # BOS sees itself alone, and stays.
    by_first = [mixed(position, parts) for position in (1, 2)]
    return [parts[0], *by_first, *(mixed(position, for_equations) for position in (3, 4))]
