"""How well a language model predicts text held out, in units that compare tokenizers.

Loss, perplexity and bits per byte from the log-probabilities that any model gave.
"""

import evaluate

from gmb_hf.jobs.metrics import StatisticModule
from gmb_hf.tasks.text import check_settings, heldout_perplexity

_DESCRIPTION = """
Loss in nats per token, perplexity = exp(loss), and bits per byte = loss x tokens / (bytes x ln 2).
The first two depend on what a token is; bits per byte does not, so it compares models of different
tokenizers. It runs no model: it takes the log-probabilities that one gave.
"""

_INPUTS = """
Args:
    predictions: ln p of each token that was predicted, a list of float64 per document; what was
        not predicted (a first token, context that another window scored) is left out.
    references: size of each document in bytes of UTF-8, len(text.encode()).
    return_per_document: add lists with a number for each document; False.

Returns:
    loss: nats per token, over all documents together.
    perplexity: exp(loss).
    bits_per_byte: loss x tokens / (bytes x ln 2).
    tokens, bytes, documents: counts.
    loss_per_document, bits_per_byte_per_document: with return_per_document.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("heldout_perplexity")
    >>> found = metric.compute(predictions=[[-1.0, -3.0], [-2.0]], references=[8, 4])
    >>> found["loss"], round(found["perplexity"], 3), round(found["bits_per_byte"], 3)
    (2.0, 7.389, 0.721)

    The same text in smaller tokens has another perplexity and the same bits per byte:

    >>> found = metric.compute(predictions=[[-0.5, -0.5, -3.0], [-1.0, -1.0]], references=[8, 4])
    >>> round(found["perplexity"], 3), round(found["bits_per_byte"], 3)
    (3.32, 0.721)
"""

_CITATION = """
@misc{evaluation_protocol,
    title = {Evaluation Protocol, phase 1a: held-out domain perplexity},
    author = {{The KintaroAI authors}},
    year = {2026},
    url = {https://github.com/KintaroAI/research}
}
"""


class HeldoutPerplexity(StatisticModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = _INPUTS
    source = _CITATION
    statistic = staticmethod(heldout_perplexity)

    def check(self, settings):
        """Refuse keywords that the statistic does not have."""
        check_settings(settings)
