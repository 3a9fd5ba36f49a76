"""Let the C library keep freed memory, so that a training step does not fault in fresh pages.

By default glibc hands every large block back to the kernel when a tensor is freed, and the next
step pays for mapping and clearing it again: a third of a small step's time. This asks it to keep
what was freed until the process ends. Elsewhere than on glibc nothing happens.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
_MMAP_MAX = -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask glibc to reuse freed memory; returns whether it agreed. The process stays so."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, _NEVER))
