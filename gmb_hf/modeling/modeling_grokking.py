"""A small decoder that groks: a pre-LN GPT-2, and variants of it.

References:
- Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2): the
  architecture and its initialisation. https://github.com/openai/gpt-2
- Power et al. 2022, "Grokking: Generalization Beyond Overfitting on Small Algorithmic Datasets".
  https://arxiv.org/abs/2201.02177
- transformers, `models/gpt2` and `models/llama`: how a model takes part in that library.

Learned positions; blocks of `x + attention(norm(x))`, then `x + mlp(norm(x))`; a final norm; the
output layer is the token embedding unless the configuration unties it. Every linear layer but the
output has a bias. There is no dropout. Without `layer_norm` the norms are left out, as
in Nanda et al. 2023 (https://arxiv.org/abs/2301.05217).

Variants, each turned on by fields of the config: banded MLPs (`BandedLinear`), layers that mix the
states of neighbouring tokens and embeddings that neighbours pull together (`mixers`), and layers
that are applied again and again (`loops`).

This file travels with saved models, and so do those it imports from: it imports torch, transformers
and its neighbours alone.

Shapes in comments: B sequences, T tokens in this call, K keys (T and those cached), C width,
H heads, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_grokking import GrokkingTransformerConfig
from .loops import Halting, looped
from .mixers import Mixer, hebbian_pull, mixers_of

LAYER_NORM_EPS = 1e-5


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attention written out: the output [B, T, H, C / H] and the weights [B, H, T, K]."""
    scores = query @ key.transpose(2, 3) * scaling  # [B, H, T, K]
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1)
    output = (weights @ value).transpose(1, 2).contiguous()  # [B, H, T, C / H] -> [B, T, H, C / H]
    return output, weights


def band_mask(outputs: int, inputs: int, band: int) -> Tensor:
    """Which weights [outputs, inputs] of a linear layer lie in the band, bool.

    Unit n of the narrower layer and unit w of the wider one, `ratio` times as wide, are connected
    iff |w - ratio n| <= band / 2: in an MLP of four times the width, |j - 4i| for the layer up
    and |i - 4j| for the layer down.
    """
    narrow, wide = min(outputs, inputs), max(outputs, inputs)
    # Multiplied through by 2 narrow, the comparison is one of whole numbers.
    distance = (torch.arange(wide) * narrow)[:, None] - torch.arange(narrow) * wide
    within = 2 * distance.abs() <= band * narrow  # [wide, narrow]
    return within if outputs == wide else within.T.contiguous()


class BandedLinear(nn.Linear):
    """A linear layer whose weights outside the band are zero and stay zero; biases are free.

    The forward multiplies the weights by the mask, so those outside get no gradient.

    Args:
        in_features, out_features: as of `nn.Linear`.
        band: twice the largest distance, in units of the wider layer.
    """

    mask: Tensor

    def __init__(self, in_features: int, out_features: int, band: int) -> None:
        super().__init__(in_features, out_features)
        self.band = band
        mask = band_mask(out_features, in_features, band)
        self.register_buffer("mask", mask.to(self.weight.device), persistent=False)

    @torch.no_grad()
    def clear_outside(self) -> None:
        """Set the mask, and the weights outside it to zero."""
        # Transformers leaves the mask empty when it loads a model: it is not in the file.
        init.copy_(self.mask, band_mask(self.out_features, self.in_features, self.band))
        self.weight.mul_(self.mask)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight * self.mask, self.bias)


class ResidualProjection(nn.Linear):
    """The linear layer by which attention or MLP joins the residual stream; it begins smaller."""


class BandedResidualProjection(BandedLinear, ResidualProjection):
    """A residual projection of banded weights."""


class GrokkingTransformerAttention(nn.Module):
    """Causal self-attention; query, key and value come from one linear layer, in this order."""

    def __init__(self, config: GrokkingTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = config.head_dim**-0.5
        self.is_causal = True
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = ResidualProjection(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        batch, length, width = hidden_states.shape
        # [B, T, 3C] -> three of [B, T, C] -> three of [B, H, T, C / H]
        query, key, value = (
            part.view(batch, length, -1, self.head_dim).transpose(1, 2)
            for part in self.qkv(hidden_states).split(width, dim=-1)
        )
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        mixed, weights = attend(
            self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        mixed = mixed.reshape(batch, length, width)  # [B, T, H, C / H] -> [B, T, C]
        return self.out(mixed), weights


class GrokkingTransformerMLP(nn.Module):
    """Up to the hidden units, the activation, and down again; each layer may be banded."""

    def __init__(self, config: GrokkingTransformerConfig) -> None:
        super().__init__()
        up, band_up = (config.hidden_size, config.intermediate_size), config.band_fc1
        down, band_down = (config.intermediate_size, config.hidden_size), config.band_fc2
        self.up = nn.Linear(*up) if band_up is None else BandedLinear(*up, band_up)
        # torch's tanh GELU is GPT-2's formula in one kernel.
        self.act = nn.ReLU() if config.hidden_act == "relu" else nn.GELU(approximate="tanh")
        self.down: ResidualProjection = (
            ResidualProjection(*down)
            if band_down is None
            else BandedResidualProjection(*down, band_down)
        )

    def forward(self, hidden_states: Tensor) -> Tensor:
        output: Tensor = self.down(self.act(self.up(hidden_states)))
        return output


def norm_layer(config: GrokkingTransformerConfig) -> nn.Module:
    """The norm of a state, or nothing where the config has none."""
    return (
        nn.LayerNorm(config.hidden_size, eps=LAYER_NORM_EPS) if config.layer_norm else nn.Identity()
    )


class GrokkingTransformerLayer(GradientCheckpointingLayer):  # type: ignore[misc]
    """One block, and the mixers that follow it, each a submodule under its own name."""

    def __init__(self, config: GrokkingTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.norm_1 = norm_layer(config)
        self.attention = GrokkingTransformerAttention(config, layer_idx)
        self.norm_2 = norm_layer(config)
        self.mlp = GrokkingTransformerMLP(config)
        self.mixers = add_mixers(self, config, after_every_block=True)

    def forward(
        self, hidden_states: Tensor, present: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        attended, _ = self.attention(self.norm_1(hidden_states), **kwargs)
        hidden_states = hidden_states + attended
        hidden_states = hidden_states + self.mlp(self.norm_2(hidden_states))
        for name in self.mixers:
            hidden_states = self.get_submodule(name)(hidden_states, present)
        return hidden_states


def add_mixers(
    module: nn.Module, config: GrokkingTransformerConfig, *, after_every_block: bool
) -> tuple[str, ...]:
    """Give a module the mixers that the config asks for at its place; their names, in order."""
    mixers = mixers_of(config, after_every_block=after_every_block)
    for name, mixer in mixers.items():
        module.add_module(name, mixer)
    return tuple(mixers)


def token_positions(
    config: GrokkingTransformerConfig,
    inputs_embeds: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    past_key_values: Cache | None,
) -> Tensor:
    """The position of every token, int64 [B, T] or [1, T]; padding takes up none.

    The arguments are those of the model's forward.

    Raises:
        ValueError: the input is longer than `max_position_embeddings`.
    """
    length = inputs_embeds.shape[1]
    limit = config.max_position_embeddings
    if position_ids is None and attention_mask is not None and attention_mask.ndim == 2:
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
    if position_ids is not None:
        # Reading a value would break a compiled graph in two.
        longest = 0 if torch.compiler.is_compiling() else int(position_ids.max()) + 1
    else:
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(length, device=inputs_embeds.device)[None] + past  # [1, T]
        longest = past + length
    if longest > limit:
        raise ValueError(
            f"the input has {longest} tokens, the model takes {limit} "
            "(max_position_embeddings); shorten the input or train a longer model"
        )
    return position_ids


def present_tokens(attention_mask: Tensor | None, length: int, reader: str) -> Tensor | None:
    """Which of the last `length` tokens are no padding, bool [B, T]; None: all are.

    Raises:
        ValueError: the mask is not [B, K], as `reader`, a part of the model, needs it.
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim != 2:
        raise ValueError(
            f"a model with {reader} takes an attention_mask [batch, tokens], 0 for padding; "
            f"got one of {attention_mask.ndim} dimensions"
        )
    return attention_mask.bool()[:, -length:]


class GrokkingTransformerPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """What transformers must know about the model, and how its weights begin."""

    config: GrokkingTransformerConfig
    config_class = GrokkingTransformerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GrokkingTransformerLayer"]  # noqa: RUF012
    _skip_keys_device_placement = ["past_key_values"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": GrokkingTransformerLayer,
        "attentions": GrokkingTransformerAttention,
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Normal weights, zero biases, and smaller weights where a block joins the residual stream.

        With 2L additions to the stream, a factor 1/sqrt(2L) on the last layer of each keeps its
        variance at the start independent of the depth L (GPT-2, section 2.3).
        """
        # Transformers passes code from outside itself only those modules that own parameters, so
        # the rule is tied to the layer and not, as in its GPT-2, to the block that holds it.
        super()._init_weights(module)
        if isinstance(module, ResidualProjection):
            std = self.config.initializer_range / math.sqrt(2 * self.config.num_hidden_layers)
            init.normal_(module.weight, mean=0.0, std=std)
        # The numbers are drawn as for the dense model, so that variants of one seed begin alike.
        if isinstance(module, BandedLinear):
            module.clear_outside()
        if isinstance(module, Mixer):
            for name, value in module.start().items():
                init.copy_(module.get_parameter(name), value)
        if isinstance(module, Halting):
            for value in module.parameters():
                init.zeros_(value)


class GrokkingTransformerModel(GrokkingTransformerPreTrainedModel):
    """The decoder without its output layer."""

    def __init__(self, config: GrokkingTransformerConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.mixers = add_mixers(self, config, after_every_block=False)
        self.reads_states = ", ".join(config.mixer_windows)
        self.uncached = ", ".join(config.uncached)
        self.layers = nn.ModuleList(
            GrokkingTransformerLayer(config, layer_idx)
            for layer_idx in range(config.num_hidden_layers)
        )
        self.norm = norm_layer(config)
        self.halting = Halting(config.hidden_size) if config.halting else None
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults  # type: ignore[untyped-decorator]
    @capture_outputs  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """The state of every token after the last block and the final norm, [B, T, C].

        Args:
            input_ids: int64 [B, T]; or give `inputs_embeds`.
            attention_mask: [B, K], 1 for a token and 0 for padding on either side; a padded
                sequence gives what it gives alone.
            position_ids: int64 [B, T] or [1, T]; counted from the mask and the cache when absent.
            past_key_values: keys and values of the tokens before these.
            inputs_embeds: [B, T, C] in place of `input_ids`.
            use_cache: return keys and values; as configured when absent, never in training.

        Raises:
            ValueError: both or neither of the inputs are given, or the input is longer than
                `max_position_embeddings`; or a variant is given what it cannot use.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        if self.uncached and past_key_values is not None:
            raise ValueError(
                f"a model with {self.uncached} reads states that no cache keeps; give the "
                "whole input, without past_key_values (use_cache=False)"
            )
        if self.training and self.config.hebbian_window is not None:
            if input_ids is None:
                raise ValueError(
                    "hebbian_window pulls the embeddings of tokens in training; give input_ids, "
                    "not inputs_embeds"
                )
            embedding, window = self.embed_tokens.weight, self.config.hebbian_window
            present = present_tokens(attention_mask, input_ids.shape[1], "hebbian_window")
            hebbian_pull(embedding, input_ids, window, self.config.hebbian_rate, present)
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)  # [B, T, C]
        if use_cache and past_key_values is None and not (self.training or self.uncached):
            past_key_values = DynamicCache(config=self.config)
        position_ids = token_positions(
            self.config, inputs_embeds, attention_mask, position_ids, past_key_values
        )
        causal_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            position_ids=position_ids,
        )
        present = None
        if self.reads_states:
            present = present_tokens(attention_mask, inputs_embeds.shape[1], self.reads_states)
        hidden_states = inputs_embeds + self.embed_positions(position_ids)  # [B, T, C]
        for name in self.mixers:
            hidden_states = self.get_submodule(name)(hidden_states, present)

        def blocks(layers: nn.ModuleList, states: Tensor) -> Tensor:
            for layer in layers:
                states = layer(
                    states,
                    present=present,
                    attention_mask=causal_mask,
                    past_key_values=past_key_values,
                    **kwargs,
                )
            return states

        if self.config.cycles is None or self.config.inner_steps is None:
            hidden_states = blocks(self.layers, hidden_states)
        else:
            ends = looped(
                hidden_states,
                lambda states: blocks(self.layers[:-1], states),
                lambda states: blocks(self.layers[-1:], states),
                cycles=self.config.cycles,
                inner_steps=self.config.inner_steps,
                eps=LAYER_NORM_EPS,
            )
            hidden_states = ends[-1] if self.halting is None else self.halting(ends)
        return BaseModelOutputWithPast(
            last_hidden_state=self.norm(hidden_states), past_key_values=past_key_values
        )


class GrokkingTransformerForCausalLM(GrokkingTransformerPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The decoder with its output layer.

    Examples:
        >>> import torch
        >>> model = GrokkingTransformerForCausalLM(GrokkingTransformerConfig.grokking(prime=97))
        >>> question = torch.tensor([[99, 3, 97, 4, 98]])  # BOS 3 + 4 =
        >>> model(question, logits_to_keep=1).logits.shape
        torch.Size([1, 1, 101])
    """

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: GrokkingTransformerConfig) -> None:
        super().__init__(config)
        self.model = GrokkingTransformerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: int | Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """The logits of the next token, [B, T, V], and the loss where labels are given.

        Args:
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache: as
                in `GrokkingTransformerModel.forward`.
            labels: int64 [B, T], aligned with the tokens (the model shifts them); -100 is ignored.
            logits_to_keep: compute logits of the last so many positions (0: of all), or of the
                positions in an int64 tensor.
            num_items_in_batch: what the summed loss is divided by, in place of the labels counted
                here; for the Trainer's gradient accumulation.

        Raises:
            ValueError: as the model's, or labels together with `logits_to_keep`.
        """
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        keep_all = isinstance(logits_to_keep, int) and logits_to_keep == 0
        if labels is not None and not keep_all:
            raise ValueError("labels need the logits of every position; leave out logits_to_keep")
        # [B, T, C] -> [B, kept, C]
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        return CausalLMOutputWithPast(
            loss=None if labels is None else next_token_loss(logits, labels, num_items_in_batch),
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


def next_token_loss(
    logits: Tensor, labels: Tensor, num_items_in_batch: int | Tensor | None = None
) -> Tensor:
    """Cross-entropy of the next token in nats, the mean over all labels that are not -100.

    As transformers' loss for causal language models, but float64 logits stay float64, so that
    exactness can be tested beyond float32.

    Args:
        logits: [B, T, V].
        labels: int64 [B, T], aligned with the tokens.
        num_items_in_batch: divide the sum by this instead.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    loss = nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1),  # [B, T - 1, V] -> [B (T - 1), V]
        labels[:, 1:].flatten().to(logits.device),  # [B, T - 1] -> [B (T - 1)]
        reduction="mean" if num_items_in_batch is None else "sum",
    )
    if num_items_in_batch is None:
        return loss
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(loss.device)
    return loss / num_items_in_batch
