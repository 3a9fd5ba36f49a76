"""Restricted and excluded loss: how much of the answers the Fourier algorithm gives already.

After Nanda et al. (2023), "Progress measures for grokking via mechanistic interpretability". The
logits of all pairs (a, b) hold waves along the direction in which the operation adds, cos(w(a + b))
and sin(w(a + b)) for addition. Those of a few key frequencies are

- all that is kept, beside the mean over the pairs, for the restricted loss, over all pairs;
- all that is removed for the excluded loss, over the training rows.

The paper takes the key frequencies of the trained network, which nobody has during a training. Here
they are the `KEY_FREQUENCIES` with the largest power in the logits of the checkpoint itself, so
that a row of the log knows nothing of later steps.

The direction is a + b for `add`, a - b for `sub`, and the same of discrete logarithms for `mul` and
`div`, over the pairs without a zero: the restricted loss leaves the other pairs out, and from their
logits nothing is removed. `sq_sum` and `x2_xy_y2` have none. Along it every place holds the pairs
of one answer, equally many each, and training and held-out rows are all pairs together; so the
waves are those of the mean logits of each answer.

Shapes: S models, n training rows, m held-out rows, G places of the group, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.training import measures
from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.take import take

KEY_FREQUENCIES = 5  # as many as the paper's network has


class FourierLosses:
    """Measures the logits of all pairs of operands, part of them trained on.

    Args:
        place: of each residue as an answer, as `places` says.
        train: true answers of the training rows, [S, n].
        test: answers of the held-out rows, [S, m]; with the training rows all pairs.
        labels: answers that the training rows carry, [S, n].
        dtype: of the logits.
    """

    def __init__(
        self,
        place: Sequence[int],
        *,
        train: Tensor,
        test: Tensor,
        labels: Tensor,
        dtype: torch.dtype,
    ) -> None:
        self._order = max(place) + 1
        at = torch.tensor(place, device=train.device)
        self._answers = at.argsort()[-self._order :]
        # Rows with a zero, which have no place, are collected behind the others.
        at = torch.where(at < 0, self._order, at)
        self._train, self._labels = at[train], labels
        self._sums = [_Sums(at[answers], self._order + 1) for answers in (train, test)]
        self._waves = orthonormal_waves(self._order).to(train.device, dtype)

    @classmethod
    def of(cls, ensemble: Ensemble) -> FourierLosses | None:
        """That of an ensemble; None where the operation has no direction."""
        task = ensemble.config.task
        place = places(task.operation, task.prime)
        if place is None:
            return None
        return cls(
            place,
            train=ensemble.truth,
            test=ensemble.test.answers,
            labels=ensemble.train.answers,
            dtype=ensemble.train.operands.dtype,
        )

    def measure(self, train: Tensor, test: Tensor) -> dict[str, Tensor]:
        """`restricted_loss` and `excluded_loss`, [S] each.

        Args:
            train: logits of the training rows, [S, n, V].
            test: logits of the held-out rows, [S, m, V].
        """
        sums = self._sums[0](train) + self._sums[1](test)
        means = sums[:, :-1] / self._order  # every place has as many pairs as there are places
        key = key_waves(means, self._waves)
        kept = means.mean(1, keepdim=True) + key
        removed = take(functional.pad(key, (0, 0, 0, 1)), self._train)
        left = torch.sub(train, removed, out=removed)
        answers = self._answers.expand(len(key), -1)
        return {
            "restricted_loss": measures.answer_losses(kept, answers).mean(1),
            "excluded_loss": measures.answer_losses(left, self._labels).mean(1),
        }


class _Sums:
    """Adds up rows [S, n, V] by the place [S, n] of each: [S, places, V].

    Each place is a bag of rows, which is many times as fast as `index_add`, and in a fixed order.
    """

    def __init__(self, place: Tensor, places: int) -> None:
        models = torch.arange(len(place), device=place.device).unsqueeze(1)
        bag = (places * models + place).flatten()
        ends = torch.bincount(bag, minlength=places * len(place)).cumsum(0)
        self._places = places
        self._rows = bag.argsort(stable=True)
        self._starts = functional.pad(ends, (1, -1))

    def __call__(self, rows: Tensor) -> Tensor:
        sums: Tensor = functional.embedding_bag(
            self._rows, rows.flatten(0, 1), self._starts, mode="sum"
        )
        return sums.view(len(rows), self._places, -1)


def places(operation: str, prime: int) -> list[int] | None:
    """Where each answer stands in the cyclic group in which the operation adds its operands.

    A list over the residues; -1 for the zero, which is outside the group of `mul` and `div`; None
    where there is no such group, or one without a wave.
    """
    if operation in ("add", "sub"):
        return list(range(prime))
    if operation not in ("mul", "div") or prime == 2:
        return None
    root = next(g for g in range(2, prime) if _is_primitive_root(g, prime))
    logarithms = [-1] * prime
    power = 1
    for exponent in range(prime - 1):
        logarithms[power] = exponent
        power = power * root % prime
    return logarithms


def orthonormal_waves(order: int) -> Tensor:
    """Cosine and sine of each frequency over a cyclic group, [2, k, G], of norm 1.

    In a group of even order the highest frequency has no sine; zeros stand for it.
    """
    waves = measures.fourier_basis(order) * math.sqrt(2 / order)
    if order % 2:
        return waves
    highest = torch.zeros(2, 1, order, dtype=waves.dtype)
    highest[0, 0, 0::2], highest[0, 0, 1::2] = order**-0.5, -(order**-0.5)
    return torch.cat([waves, highest], dim=1)


def key_waves(means: Tensor, waves: Tensor) -> Tensor:
    """The part of the mean logits [S, G, V] that the key frequencies make, same shape.

    What all tokens of a row have in common is left out: a softmax does not see it.

    Args:
        means: of the pairs at each place.
        waves: of `orthonormal_waves`.
    """
    centred = means - means.mean(-1, keepdim=True)
    count, order = waves.shape[1:]
    flat = waves.reshape(-1, order)
    amplitudes: Tensor = (flat @ centred).unflatten(1, (2, count))  # [S, 2, k, V]
    power = amplitudes.square().sum((1, 3))
    key = power.topk(min(KEY_FREQUENCIES, count)).indices
    chosen = torch.zeros_like(power).scatter_(1, key, 1.0)
    return flat.T @ (amplitudes * chosen[:, None, :, None]).flatten(1, 2)


def _is_primitive_root(candidate: int, prime: int) -> bool:
    return len({pow(candidate, exponent, prime) for exponent in range(prime - 1)}) == prime - 1
