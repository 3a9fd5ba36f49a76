"""The configuration of the grokking transformer.

This file travels with saved models: it imports transformers and the standard library alone.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from transformers import PreTrainedConfig

ACTIVATIONS = ("gelu_new", "relu")
"""`gelu_new` is the GELU with the tanh approximation, under the name that GPT-2 gave it."""


class GrokkingTransformerConfig(PreTrainedConfig):  # type: ignore[misc]
    """The shape of a `GrokkingTransformerForCausalLM`.

    The defaults are the `grokking` preset of the evaluation protocol, phase 2a.

    Args:
        vocab_size: token ids, 0 .. vocab_size - 1.
        hidden_size: width of the residual stream.
        intermediate_size: hidden units of the MLP; four times the width when not given.
        num_hidden_layers: blocks.
        num_attention_heads: heads; they must divide the width.
        max_position_embeddings: the longest input, in tokens.
        hidden_act: `gelu_new` or `relu`.
        initializer_range: standard deviation of the weights at the start.
        layer_norm: whether states are normalised before each attention, each MLP and the output.
        tie_word_embeddings: whether the output layer is the token embedding.
        use_cache: whether a forward outside training returns keys and values to continue from;
            False with a mixer or with cycles, which read states that no cache keeps.
        pad_token_id, bos_token_id, eos_token_id: special tokens, None where there are none.
        band_fc1, band_fc2: keep of the MLP's layer up, down, only the weights within half of this
            from the diagonal (`BandedLinear`); None keeps all.
        sort_window: after each block, mix each state with those of the last so many tokens that
            resemble it (`mixers.Sort`).
        blend_window: mix each embedding with those of the last so many tokens (`mixers.Blend`).
        hebbian_window: before each training forward, pull together the embeddings of tokens that
            stand within this distance (`mixers.hebbian_pull`).
        hebbian_rate: how far, as a share of the way.
        cycles, inner_steps: apply the layers before the last so many inner steps in each of so
            many cycles, and the last one at the end of each cycle (`loops`).
        halting: mix the states of all cycles by a learned probability of halting there.

    Raises:
        ValueError: a size is not a whole number of at least 1, the heads do not divide the
            width, the activation is unknown, a band leaves a unit without connection, a window
            is longer than the longest input, or loops lack a part.

    Examples:
        >>> GrokkingTransformerConfig.grokking(prime=29, num_hidden_layers=1).vocab_size
        33
    """

    model_type = "grokking_transformer"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (transformers names it so)

    vocab_size: int = 101
    hidden_size: int = 128
    intermediate_size: int = None  # type: ignore[assignment]  # set in __post_init__
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    max_position_embeddings: int = 8
    hidden_act: str = "gelu_new"
    initializer_range: float = 0.02
    layer_norm: bool = True
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    band_fc1: int | None = None
    band_fc2: int | None = None
    sort_window: int | None = None
    blend_window: int | None = None
    hebbian_window: int | None = None
    hebbian_rate: float = 1e-3
    cycles: int | None = None
    inner_steps: int | None = None
    halting: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        if self.intermediate_size is None and isinstance(self.hidden_size, int):
            self.intermediate_size = 4 * self.hidden_size
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "max_position_embeddings",
        ):
            self._check_size(name)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads={self.num_attention_heads} does not divide "
                f"hidden_size={self.hidden_size}"
            )
        if self.hidden_act not in ACTIVATIONS:
            word = str(self.hidden_act).lower()
            near = [name for name in ACTIVATIONS if name[:4] == word[:4]]
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"hidden_act {self.hidden_act!r} is unknown; known: {', '.join(ACTIVATIONS)}.{hint}"
            )
        if not self.initializer_range > 0:
            raise ValueError(f"initializer_range must be positive, got {self.initializer_range!r}")
        for name in ("layer_norm", "halting"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        self._check_variant()
        self._check_loops()
        if self.uncached:
            self.use_cache = False
        super().__post_init__(**kwargs)

    def _check_size(self, name: str) -> None:
        size = getattr(self, name)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")

    def _check_variant(self) -> None:
        for name in ("band_fc1", "band_fc2"):
            if getattr(self, name) is None:
                continue
            self._check_size(name)
            least = least_band(self.hidden_size, self.intermediate_size)
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name}={getattr(self, name)} leaves units of the MLP without connection; "
                    f"from {self.hidden_size} to {self.intermediate_size} units the least band "
                    f"that connects all is {least}"
                )
        for name, window in self._windows().items():
            self._check_size(name)
            if window > self.max_position_embeddings:
                raise ValueError(
                    f"{name}={window} is longer than the longest input, "
                    f"max_position_embeddings={self.max_position_embeddings} tokens; "
                    "choose a shorter window"
                )
        rate = self.hebbian_rate
        number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
        if not number or not 0 < rate < math.inf:
            raise ValueError(f"hebbian_rate must be a positive number, got {rate!r}")

    def _check_loops(self) -> None:
        if self.cycles is None:
            if self.inner_steps is not None:
                raise ValueError(f"inner_steps={self.inner_steps!r} needs cycles; set cycles too")
            if self.halting:
                raise ValueError("halting=True needs cycles; set cycles too")
            return
        self._check_size("cycles")
        if self.inner_steps is None:
            raise ValueError(
                f"cycles={self.cycles} needs inner_steps, how often the layers before the last "
                "are applied in each cycle; set it too"
            )
        self._check_size("inner_steps")
        if self.num_hidden_layers < 2:
            raise ValueError(
                f"cycles={self.cycles} needs at least 2 layers, the last one for the slow block; "
                f"got num_hidden_layers={self.num_hidden_layers}"
            )
        if self.halting and self.cycles == 1:
            raise ValueError("halting chooses among cycles; with cycles=1 there is no choice")

    @property
    def uncached(self) -> tuple[str, ...]:
        """What keeps the model from continuing from keys and values alone; most often nothing."""
        return (*self.mixer_windows, *(() if self.cycles is None else ("cycles",)))

    def _windows(self) -> dict[str, Any]:
        """The fields named `..._window` that are set: one for each mixer, and hebbian_window."""
        names = [field.name for field in dataclasses.fields(self)]
        windows = {name: getattr(self, name) for name in names if name.endswith("_window")}
        return {name: window for name, window in windows.items() if window is not None}

    @property
    def mixer_windows(self) -> dict[str, int]:
        """The windows of the mixers that are on, by the mixer's name."""
        return {
            name.removesuffix("_window"): window
            for name, window in self._windows().items()
            if name != "hebbian_window"
        }

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def grokking(cls, prime: int = 97, **overrides: Any) -> GrokkingTransformerConfig:
        """The protocol's preset for modular arithmetic: block 8, vocabulary p+4, 2 x 4 x 128.

        Any field may be given, e.g. `vocab_size=prime + 7` for distinct operation tokens.
        """
        special = {"bos_token_id": prime + 2, "eos_token_id": prime + 3, "pad_token_id": prime + 3}
        shape = {"vocab_size": prime + 4, "max_position_embeddings": 8}
        return cls(**{**shape, **special, **overrides})

    @classmethod
    def formal(cls, **overrides: Any) -> GrokkingTransformerConfig:
        """The protocol's preset for formal languages: block 24, vocabulary 101, 2 x 4 x 128."""
        # The special tokens are those of modular arithmetic with the prime 97.
        return cls.grokking(97, **{"max_position_embeddings": 24, **overrides})


def least_band(width: int, hidden_units: int) -> int:
    """The least band with which every unit of both layers is connected to one of the other.

    Unit n of the narrower layer is connected to unit w of the wider one iff
    |w - ratio n| <= band / 2, with the ratio of their widths.
    """
    narrow, wide = sorted((width, hidden_units))

    def farthest(units: int, others: int) -> int:
        """The largest distance from a unit to the nearest other one, in units of 1 / narrow."""
        return max(
            min(
                abs(unit * others - other * units)
                for other in (unit * others // units, unit * others // units + 1)
                if other < others
            )
            for unit in range(units)
        )

    return max(1, math.ceil(2 * max(farthest(wide, narrow), farthest(narrow, wide)) / narrow))
