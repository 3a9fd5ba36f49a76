"""Judges: models that say how good an answer to a prompt is, as one number.

| how        | model           | score of an answer                                              |
|------------|-----------------|-----------------------------------------------------------------|
| label      | text classifier | probability of a label; the logit itself where there is but one |
| likelihood | causal          | mean log-probability of the answer's tokens after the prompt    |
| yes-no     | causal          | p(yes) / (p(yes) + p(no)) after a template that asks            |

A template is a text with {answer} in it, and {prompt} where the prompt shall stand. A judge has
seen what its owner trained it on, perhaps the labels that the metric is made of: that is for the
owner to say, and its scores pass the same gates as all others.
"""

from __future__ import annotations

from gmb_hf.answers.asking import ASK, PLAIN, Asking, Judge
from gmb_hf.answers.causal_judge import CausalJudge
from gmb_hf.answers.label_judge import LabelJudge
from gmb_hf.answers.models import Head, head_of
from gmb_hf.answers.sources import Source
from gmb_hf.answers.unloaded import Unloaded
from gmb_hf.training.devices import chosen_device
from gmb_hf.validation import InputError


def load_judge(source: Source, asking: Asking, *, device: str = "auto") -> Judge:
    """The judge of a model; its weights are loaded when it is first asked.

    Raises:
        InputError: the model is of another kind than the way of asking needs, or it is not said
            which of its labels is the score.
    """
    head = head_of(source)
    how = asking.how
    if how is None and head == "causal":
        raise InputError(
            f"{source.place}: is a causal language model; say how it judges: --how likelihood, or "
            "--how yes-no"
        )
    wanted: Head = "classifier" if how in (None, "label") else "causal"
    model = Unloaded(source, wanted, chosen_device(device))
    if wanted == "classifier":
        return LabelJudge(model, asking.label, asking.template or PLAIN)
    words = (asking.yes, asking.no) if how == "yes-no" else None
    return CausalJudge(model, asking.template or ASK if words else PLAIN, words)
