"""The losses of a step through torch.compile, where that pays, with a fallback that says so.

Compiling takes 10 to 20 seconds for each number of stacked seeds; it then saves a third of a step
of small models and a seventh of a step of large ones. Whether it pays is decided from the config
and the number of seeds alone, never from the clock, so that an interrupted training goes on with
the same arithmetic.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from gmb_hf.training.block import Weights
from gmb_hf.training.config import RunConfig
from gmb_hf.training.equations import Equations, TrunkLayout
from gmb_hf.training.fused import Workspace
from gmb_hf.training.trunk import answer_losses

WORTH_COMPILING = 1e12  # multiply-adds: about a minute of two CPU cores


def pays(config: RunConfig, n_seeds: int) -> bool:
    """Whether training so many seeds is work enough to win back the time that compiling takes."""
    task, model = config.task, config.model
    rows = task.train_rows or round(task.train_fraction * task.prime**2)
    # The MLP dominates; a layer has two rows per equation, the last one unless it is sorted. Of a
    # layer that is applied again, compiling takes so much longer as it saves: it counts once.
    tokens = rows * (2 * model.layers - (model.sort_window is None))
    per_step = tokens * 2 * model.width * model.mlp_width * 3  # forward, and twice that backward
    return n_seeds * config.training.steps * per_step >= WORTH_COMPILING


def wanted(config: RunConfig, n_seeds: int) -> bool:
    """Whether the config asks for compiling: "always", "never", or "auto" where it pays."""
    mode = config.training.compile
    return mode == "always" or (mode == "auto" and pays(config, n_seeds))


class CompiledLosses:
    """`answer_losses` with its logits, compiled at the first call.

    Attributes:
        works: False once compiling has failed; the caller then goes on without it.
    """

    def __init__(self, layout: TrunkLayout, workspace: Workspace) -> None:
        def losses(weights: Weights, equations: Equations) -> tuple[Tensor, Tensor]:
            # One graph with logits serves all steps: a copy costs less than a second compilation.
            return answer_losses(weights, layout, equations, workspace, keep_logits=True)

        self._losses = torch.compile(losses, dynamic=False)
        self._proved = False
        self.works = True

    def __call__(self, weights: Weights, equations: Equations) -> tuple[Tensor, Tensor] | None:
        """The losses [S] and the logits [S, n, V], or None where this machine cannot compile."""
        try:
            found: tuple[Tensor, Tensor] = self._losses(weights, equations)
        except Exception as error:
            if self._proved:
                raise
            # Whatever the compiler of this machine lacks, training goes on without it.
            warnings.warn(
                f"torch.compile does not work here ({type(error).__name__}); training goes on "
                "without it, a little slower",
                RuntimeWarning,
                stacklevel=2,
            )
            self.works = False
            return None
        self._proved = True
        return found
