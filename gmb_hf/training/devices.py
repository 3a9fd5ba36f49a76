"""Where to train: what a person asked for, and what the machine has."""

from __future__ import annotations

from gmb_hf.training.settings import DEVICES
from gmb_hf.validation import InputError, choose


def chosen_device(device: str, *, option: str = "--device") -> str:
    """ "cpu" or "cuda", for "auto", "cpu" or "cuda".

    Raises:
        InputError: an unknown word, or CUDA where torch sees none.
    """
    choose("device", device, DEVICES, where=option)
    import torch

    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise InputError(f"{option} cuda: torch sees no CUDA device here; use {option} cpu")
    return "cuda" if has_cuda and device != "cpu" else "cpu"
