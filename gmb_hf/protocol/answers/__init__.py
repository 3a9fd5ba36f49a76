"""Answers of language models at their checkpoints, and judges that rate them."""

from gmb_hf._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
