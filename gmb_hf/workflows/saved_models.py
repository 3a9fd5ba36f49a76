"""Models that `save_pretrained` left, loaded without a word or refused with one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.validation import InputError

if TYPE_CHECKING:
    from gmb_hf.modeling import GrokkingTransformerForCausalLM


def load_model(folder: str | Path) -> GrokkingTransformerForCausalLM:
    """The model in a folder, whole.

    Raises:
        InputError: there is none, it is another kind of model, or weights are missing or of
            another shape.
    """
    from gmb_hf.modeling import GrokkingTransformerForCausalLM
    from gmb_hf.training.quiet import quiet_models

    if not (Path(folder) / "config.json").is_file():
        raise InputError(f"{folder}: holds no model (no config.json); save_pretrained writes one")
    try:
        with quiet_models():
            model, about = GrokkingTransformerForCausalLM.from_pretrained(
                folder, output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}: could not be loaded as a grokking model: {reason}") from None
    # transformers would draw missing weights at random.
    wrong = sorted({*about["missing_keys"], *about["unexpected_keys"]})
    if wrong:
        raise InputError(
            f"{folder}: is no whole grokking model; {len(wrong)} of its weights are missing or "
            f"unknown, e.g. {wrong[0]}"
        )
    loaded: GrokkingTransformerForCausalLM = model.eval()
    return loaded
