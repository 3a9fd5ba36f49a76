"""A model that is loaded when it is first asked: scores that are known cost no loading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gmb_hf.answers.models import Head, Loaded, could_not, load, require_head
from gmb_hf.answers.sources import Source


@dataclass(frozen=True)
class Unloaded:
    """A model whose weights lie on disk.

    Attributes:
        source: where it is.
        head: which kind of model it must be.
        device: auto, cpu or cuda.

    Raises:
        InputError: its config says that it is another kind of model.
    """

    source: Source
    head: Head
    device: str = "auto"

    def __post_init__(self) -> None:
        require_head(self.source, self.head)

    @property
    def place(self) -> str:
        """As it was named."""
        return self.source.place

    @cached_property
    def config(self) -> Any:
        """Its config, which needs no weights.

        Raises:
            InputError: it cannot be read.
        """
        from transformers import AutoConfig

        import gmb_hf.modeling  # noqa: F401 (makes its models known to the Auto classes)

        with could_not("be loaded", self.source):
            return AutoConfig.from_pretrained(
                self.source.folder, local_files_only=True, trust_remote_code=self.source.code
            )

    @cached_property
    def loaded(self) -> Loaded:
        """The model itself, loaded now; once.

        Raises:
            InputError: as `load` says.
        """
        return load(self.source, self.head, device=self.device)
