"""A live run watched by a locked score: CLEAR, ALARM or ABSTAIN."""

from gmb_hf._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
