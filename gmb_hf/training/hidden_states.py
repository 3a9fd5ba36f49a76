"""How alike a model holds two equations: the cosine of its hidden states at the equals sign.

The state is the one after the last norm, from which the answer is read. Equations with the same
answer come together in it as a model finds the rule.

Shapes: S seeds, m equations, d width, N anchors with C candidates each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.equations import Equations
from gmb_hf.training.trunk import answer_logits


def answer_hidden(ensemble: Ensemble, equations: Equations) -> Tensor:
    """Final hidden states of every seed at the equals sign, [S, m, d], without gradients."""
    return answer_logits(ensemble.weights, ensemble.layout, equations)[1]


@torch.no_grad()
def model_hidden(model: GrokkingTransformerForCausalLM, input_ids: Tensor, position: int) -> Tensor:
    """The same of one model's own forward, [m, d].

    Args:
        model: in any mode; it has no dropout.
        input_ids: [m, T].
        position: of the equals sign.
    """
    # Causal: what follows the position changes nothing.
    states = model.model(input_ids=input_ids[:, : position + 1]).last_hidden_state
    found: Tensor = states[:, position]
    return found


@torch.no_grad()
def cosines(hidden: Tensor, anchors: Tensor, candidates: Tensor) -> Tensor:
    """Cosine of every candidate with its anchor, [S, N, C].

    Args:
        hidden: [S, m, d]; a state of length 0 has the cosine 0 with all others.
        anchors: places among the m, [S, N].
        candidates: the same, [S, N, C].
    """
    unit = torch.nn.functional.normalize(hidden, dim=-1)
    seeds, count, each = candidates.shape
    width = unit.shape[-1]
    anchor = unit.gather(1, anchors.unsqueeze(-1).expand(-1, -1, width))
    places = candidates.reshape(seeds, count * each, 1).expand(-1, -1, width)
    candidate = unit.gather(1, places).view(seeds, count, each, width)
    return torch.einsum("snd,sncd->snc", anchor, candidate)
