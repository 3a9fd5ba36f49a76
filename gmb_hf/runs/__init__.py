"""Run logs: one table with a row per run and checkpoint."""

from gmb_hf._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
