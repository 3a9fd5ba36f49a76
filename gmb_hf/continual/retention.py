"""What a model keeps, learns and gains: the standard numbers of a sequence of tasks.

R[i, k] is the accuracy or the loss on task k after phase i, in which task i was trained; R[0, k] is
that of the untrained model and P the number of phases. Every number is of one model, so that its
spread over seeds can be seen.

| number            | of task k                              | source                          |
|-------------------|----------------------------------------|---------------------------------|
| final             | R[P, k]; its mean is the average       | Lopez-Paz and Ranzato 2017      |
| learning          | R[k, k]                                | Riemer et al. 2019              |
| backward transfer | R[P, k] - R[k, k], k < P               | Lopez-Paz and Ranzato 2017      |
| forward transfer  | R[k - 1, k] - R[0, k], k > 1           | Lopez-Paz and Ranzato 2017      |
| forgetting        | best R[i, k], 1 <= i < P, less R[P, k] | Chaudhry et al. 2018, k < P     |

Of a loss, the differences of transfer keep their order (below 0 is better), and forgetting is
R[P, k] less the lowest before, so that more of it is worse, as of an accuracy. The last task cannot
have been forgotten, nor the first helped by what came before; they are left out of these means, not
counted as 0.

Lopez-Paz and Ranzato 2017, "Gradient Episodic Memory for Continual Learning"; Chaudhry et al. 2018,
"Riemannian Walk for Incremental Learning"; Riemer et al. 2019, "Learning to Learn without
Forgetting by Maximizing Transfer and Minimizing Interference".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.continual.matrix import RetentionMatrix

MEASURES = ("accuracy", "loss")
NUMBERS = ("average", "learning", "backward_transfer", "forward_transfer", "forgetting")
QUANTITIES = tuple(f"{number}_{measure}" for number in NUMBERS for measure in MEASURES)
"""The numbers that sum up a matrix, e.g. "average_accuracy"; one a seed."""


@dataclass(frozen=True, eq=False)
class Retention:
    """One measure of S models that were trained on P tasks in turn, task by task.

    Attributes:
        final: after the last phase, [S, P].
        learning: after the task's own phase, [S, P].
        backward_transfer: of tasks 1 .. P - 1, [S, P - 1].
        forward_transfer: of tasks 2 .. P, [S, P - 1].
        forgetting: of tasks 1 .. P - 1, [S, P - 1]; below 0 where the last phase is the best.
    """

    final: NDArray[np.float64]
    learning: NDArray[np.float64]
    backward_transfer: NDArray[np.float64]
    forward_transfer: NDArray[np.float64]
    forgetting: NDArray[np.float64]

    def means(self) -> dict[str, NDArray[np.float64] | None]:
        """Each of `NUMBERS` as its mean over tasks, [S]; None where no task has one."""
        by_task = (
            self.final,
            self.learning,
            self.backward_transfer,
            self.forward_transfer,
            self.forgetting,
        )
        return {
            name: values.mean(axis=1) if values.shape[1] else None
            for name, values in zip(NUMBERS, by_task, strict=True)
        }


def retention(values: NDArray[np.float64], *, higher_is_better: bool) -> Retention:
    """The numbers above, of one measure.

    Args:
        values: R, float64 [S, P + 1, P]; column k - 1 is the task of phase k.
        higher_is_better: of an accuracy; False of a loss.

    >>> import numpy as np
    >>> after = [[0.5, 0.5], [1.0, 0.75], [0.25, 1.0]]  # untrained, phase 1, phase 2
    >>> found = retention(np.array([after]), higher_is_better=True)
    >>> found.forgetting.tolist(), found.forward_transfer.tolist()
    ([[0.75]], [[0.25]])
    """
    phases = values.shape[1] - 1
    place = np.arange(phases)
    learning, final = values[:, place + 1, place], values[:, -1]
    trained = values[:, 1:-1, :-1]
    if phases > 1:
        best = trained.max(axis=1) if higher_is_better else trained.min(axis=1)
    else:
        best = np.empty((len(values), 0))
    lost = best - final[:, :-1]
    return Retention(
        final=final,
        learning=learning,
        backward_transfer=(final - learning)[:, :-1],
        forward_transfer=values[:, place[1:], place[1:]] - values[:, 0, 1:],
        forgetting=lost if higher_is_better else -lost,
    )


def retention_of(matrix: RetentionMatrix, measure: str) -> Retention:
    """The numbers of a matrix's "accuracy" or "loss", over the tasks that were trained."""
    values: NDArray[np.float64] = getattr(matrix, measure)
    return retention(
        values[:, :, matrix.trained_columns], higher_is_better=higher_is_better(measure)
    )


def quantities(matrix: RetentionMatrix) -> dict[str, NDArray[np.float64] | None]:
    """Each of `QUANTITIES`, one number a seed, [S]; None where there is only one phase."""
    found = {measure: retention_of(matrix, measure).means() for measure in MEASURES}
    return {
        f"{number}_{measure}": found[measure][number] for number in NUMBERS for measure in MEASURES
    }


def higher_is_better(quantity: str) -> bool:
    """Whether more of a measure or quantity is better: forgetting never, a loss never."""
    return not quantity.startswith("forgetting") and not quantity.endswith("loss")
