"""Libraries that load and save models, without their progress bars and remarks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_SAVING = "accelerate.utils.other"  # remarks that tied weights are stored once


@contextmanager
def quiet_models() -> Iterator[None]:
    """No progress bars and no warnings of transformers, and none of saving by Accelerate."""
    from transformers.utils import logging as remarks

    level, bars = remarks.get_verbosity(), remarks.is_progress_bar_enabled()
    saving = logging.getLogger(_SAVING)
    saving_level = saving.level
    remarks.set_verbosity_error()
    remarks.disable_progress_bar()
    saving.setLevel(logging.ERROR)
    try:
        yield
    finally:
        saving.setLevel(saving_level)
        remarks.set_verbosity(level)
        if bars:
            remarks.enable_progress_bar()
