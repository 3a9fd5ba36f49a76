"""What a model keeps of the tasks that it learned one after the other.

Average accuracy, learning, backward and forward transfer, and forgetting, in the definitions of
Lopez-Paz and Ranzato (2017) and Chaudhry et al. (2018).
"""

import evaluate

from gmb_hf.jobs.metrics import StatisticModule
from gmb_hf.protocol.sequential.matrix import check as check_settings
from gmb_hf.protocol.sequential.matrix import retention

_DESCRIPTION = """
A model is trained on tasks one after the other, and after each phase it is evaluated on all of
them. This metric sums up the table: how well each task was learned, what is left of it at the end,
and what a task gained from those before it.
"""

_INPUTS = """
Args:
    predictions: a row per phase, in their order: the accuracy (or the loss) on every task, a list
        of float64.
    references: the place, from 0, of the task that was trained in the phase; None for the untrained
        model, whose row comes first and may be left out. A task has one phase.
    measure: "accuracy" (default), in [0, 1], or "loss", of which less is better.
    return_per_task: add a list of each number, a task each, in the order of training; False.

Returns:
    average_accuracy: mean after the last phase over the tasks that were trained.
    learning_accuracy: mean of each task after its own phase.
    backward_transfer_accuracy: mean of the end less its own phase, over all tasks but the last.
    forward_transfer_accuracy: mean of before its own phase less the untrained model, over all tasks
        but the first; None without the row of the untrained model.
    forgetting_accuracy: mean of the best before the last phase less the end, over all tasks but the
        last; of a loss, the end less the lowest, so that more is worse as well.
    n_phases: how many.
    With measure="loss" the names end in _loss. What takes two phases is None after one.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("retention")
    >>> rows = [[0.25, 0.5], [1.0, 0.75], [0.5, 1.0]]  # untrained, after phase 1, after phase 2
    >>> found = metric.compute(predictions=rows, references=[None, 0, 1])
    >>> found["average_accuracy"], found["forgetting_accuracy"]
    (0.75, 0.5)

    What the first phase did for the second task, before it was trained:

    >>> found["forward_transfer_accuracy"]
    0.25
"""

_CITATION = """
@inproceedings{lopezpaz2017gem,
    title = {Gradient Episodic Memory for Continual Learning},
    author = {Lopez-Paz, David and Ranzato, Marc'Aurelio},
    booktitle = {Advances in Neural Information Processing Systems},
    year = {2017}
}
@inproceedings{chaudhry2018riemannian,
    title = {Riemannian Walk for Incremental Learning: Understanding Forgetting and Intransigence},
    author = {Chaudhry, Arslan and Dokania, Puneet K. and Ajanthan, Thalaiyasingam and
        Torr, Philip H. S.},
    booktitle = {European Conference on Computer Vision},
    year = {2018}
}
"""


class Retention(StatisticModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = _INPUTS
    source = _CITATION
    statistic = staticmethod(retention)

    def check(self, settings):
        """Refuse keywords that the statistic does not have."""
        check_settings(settings)
