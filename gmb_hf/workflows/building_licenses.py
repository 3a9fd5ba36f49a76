"""Under which licence each config of a dataset stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from gmb_hf.validation import InputError, choose, repeated


@dataclass(frozen=True)
class Licenses:
    """What `--license` said.

    Attributes:
        named: config -> its licence.
        others: of the configs that are not named and have none of their own.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    others: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str], names: Iterable[str]) -> Self:
        """Read `NAME=LICENCE` and `LICENCE`.

        Args:
            words: as typed.
            names: of the configs.

        Raises:
            InputError: a name of no config, a config named twice, or two licences for the others.
        """
        known = list(names)
        pairs = [word.rpartition("=")[::2] for word in words]
        twice = repeated(name for name, _ in pairs)
        if twice is not None or not all(license for _, license in pairs):
            raise InputError(
                "--license: write LICENCE, or NAME=LICENCE for one config, each name once"
            )
        for name, _ in pairs:
            if name:
                choose("config", name, known, where="--license")
        named = dict(pairs)
        others = named.pop("", None)
        return cls(named, others)

    def of(self, name: str, *, own: str | None = None, usual: str | None = None) -> str:
        """The licence of a config.

        Args:
            name: of the config.
            own: what its source is known to stand under; only its name overrides that.
            usual: where nothing was said.

        Raises:
            InputError: nobody has said.
        """
        found = self.named.get(name) or own or self.others or usual
        if found is None:
            raise InputError(
                f"config {name!r}: under which licence? Say so: --license {name}=cc-by-4.0"
            )
        return found
