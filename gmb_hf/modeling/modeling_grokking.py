"""A small decoder that groks: a pre-LN GPT-2, and variants of it.

References:
- Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2): the
  architecture and its initialisation. https://github.com/openai/gpt-2
- Power et al. 2022, "Grokking: Generalization Beyond Overfitting on Small Algorithmic Datasets".
  https://arxiv.org/abs/2201.02177
- transformers, `models/gpt2` and `models/llama`: how a model takes part in that library.

Learned positions; blocks of `x + attention(norm(x))`, then `x + mlp(norm(x))`; a final norm; the
output layer is the token embedding unless the configuration unties it. Every linear layer but the
output has a bias. There is no dropout.

Variants, each turned on by fields of the config: banded MLPs (`banded`), layers that mix the states
of neighbouring tokens (`mixers`), embeddings that neighbours pull together (`hebbian`), and layers
that are applied again and again (`loops`).

This file travels with saved models, and so do those it imports from: it imports torch, transformers
and its neighbours alone.

Shapes in comments: B sequences, T tokens in this call, K keys (T and those cached), C width,
V vocabulary.
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
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .banded import BandedLinear
from .configuration_grokking import GrokkingTransformerConfig
from .hebbian import hebbian_pull
from .inputs_grokking import present_tokens, token_positions
from .layers_grokking import (
    LAYER_NORM_EPS,
    GrokkingTransformerAttention,
    GrokkingTransformerLayer,
    ResidualProjection,
    add_mixers,
)
from .loops import Halting, looped
from .mixers import Mixer


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
            init.zeros_(module.weight)
            init.zeros_(module.bias)


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
        self.norm = nn.LayerNorm(config.hidden_size, eps=LAYER_NORM_EPS)
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
            attention_mask: [B, K], 1 for a token and 0 for padding on either side. Padding takes
                up no position, so a padded sequence gives what it gives alone.
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
            self._pull(input_ids, attention_mask, self.config.hebbian_window)
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

    def _pull(self, input_ids: Tensor | None, attention_mask: Tensor | None, window: int) -> None:
        """Pull together, in place, the embeddings of tokens that stand within the window."""
        if input_ids is None:
            raise ValueError(
                "hebbian_window pulls the embeddings of tokens in training; give input_ids, not "
                "inputs_embeds"
            )
        present = present_tokens(attention_mask, input_ids.shape[1], "hebbian_window")
        rate = self.config.hebbian_rate
        hebbian_pull(self.embed_tokens.weight, input_ids, window, rate, present)


class GrokkingTransformerForCausalLM(GrokkingTransformerPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The decoder with its output layer.

    Example:
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


__all__ = [
    "GrokkingTransformerForCausalLM",
    "GrokkingTransformerModel",
    "GrokkingTransformerPreTrainedModel",
]
