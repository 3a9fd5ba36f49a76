"""The extras of the package, and the one line for a library that is not installed.

`pip install gmb-hf` judges and loads; what trains, encodes or draws pages is an extra of setup.cfg.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gmb_hf.base.errors import InputError

EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "tokenizers": "train",
    "accelerate": "train",
    "sentence_transformers": "encoders",
    "gradio": "apps",
    "lm_eval": "benchmarks",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
}
"""A library, as it is imported -> the extra that brings it; a test compares it with setup.cfg."""


class MissingExtra(InputError, ImportError):
    """What was asked for needs a library that is not installed; it is an `ImportError` as well."""

    code = "missing_extra"


def present(library: str) -> bool:
    """Whether a library is installed; it is not loaded."""
    return find_spec(library) is not None


def command(library: str) -> str:
    """What installs the extra of a library, to be typed into a shell.

    >>> command("torch")
    "pip install 'gmb-hf[train]'"
    """
    return f"pip install 'gmb-hf[{EXTRAS[library]}]'"


def missing(who: str, library: str, *, otherwise: str = "") -> MissingExtra:
    """The error `who needs a library, which is not installed: pip install ...`.

    `otherwise` says what does without.
    """
    name = library.replace("_", "-")
    line = f"{who} needs {name}, which is not installed: {command(library)}"
    return MissingExtra(line + (f"; or {otherwise}" if otherwise else ""), name=name)


@contextmanager
def needing(who: str) -> Iterator[None]:
    """Say of an import that fails inside which extra `who` lacks; other failures stay as they are.

    Raises:
        MissingExtra: a library of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS or present(library):  # a part of it is missing: another version
            raise
        raise missing(who, library) from error
