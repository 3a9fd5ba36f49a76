"""Seeds as people write them: `0:32`, `7`, `1,2,5`, `0:32,100:104`."""

from __future__ import annotations

from collections.abc import Sequence

from gmb_hf.validation import InputError

MAX_SEED = 2**32  # the split's random stream takes 32 bits
MOST_SEEDS = 10**6  # more are a slip of the keyboard


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that `text` stands for, in the order written; `a:b` excludes b.

    Raises:
        InputError: a part that is no number or range, an empty range, or a seed given twice.

    Example:
        >>> parse_seeds("0:3,10")
        (0, 1, 2, 10)
    """
    seeds: dict[int, None] = {}  # in order
    for part in (part.strip() for part in text.split(",")):
        first, colon, last = part.partition(":")
        try:
            start = int(first)
            stop = int(last) if colon else start + 1
        except ValueError:
            raise InputError(
                f"seeds {text!r}: {part!r} is no seed; write a number, a range such as "
                "0:32, or several with commas"
            ) from None
        if start < 0 or stop > MAX_SEED:
            raise InputError(f"seeds {text!r}: {part!r} is out of range; seeds are 0 to 2^32 - 1")
        if stop <= start:
            raise InputError(f"seeds {text!r}: {part!r} is empty; a:b runs from a to b - 1")
        if stop - start + len(seeds) > MOST_SEEDS:
            raise InputError(f"seeds {text!r}: more than {MOST_SEEDS:,} seeds; give fewer")
        for seed in range(start, stop):
            if seed in seeds:
                raise InputError(f"seeds {text!r}: {seed} is given twice; give each seed once")
            seeds[seed] = None
    return tuple(seeds)


def format_seeds(seeds: Sequence[int]) -> str:
    """The shortest text that `parse_seeds` reads as these seeds, sorted.

    Example:
        >>> format_seeds([3, 1, 2, 9])
        '1:4,9'
    """
    ordered = sorted(seeds)
    parts: list[str] = []
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            first, last = ordered[start], ordered[index - 1]
            parts.append(str(first) if first == last else f"{first}:{last + 1}")
            start = index
    return ",".join(parts)
