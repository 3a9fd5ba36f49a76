"""Banded layers: which weights they keep, that the others stay zero, and bands that are refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_builders import SMALL, build, tokens

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.configuration_grokking import least_band
from gmb_hf.modeling.modeling_grokking import BandedLinear, band_mask

BANDS = {"band_fc1": 12, "band_fc2": 6, "intermediate_size": 96}


def test_the_protocols_bands_by_loops():
    up, down = band_mask(512, 128, 256), band_mask(128, 512, 100)
    for narrow in range(128):
        for wide in range(512):
            assert up[wide, narrow] == (abs(wide - 4 * narrow) <= 128)
            assert down[narrow, wide] == (abs(wide - 4 * narrow) <= 50)


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 40))
def test_any_widths_and_bands(narrow, wide, band):
    narrow, wide = sorted((narrow, wide))
    mask = band_mask(wide, narrow, band)
    assert torch.equal(band_mask(narrow, wide, band), mask.T)
    for w in range(wide):
        for n in range(narrow):
            assert mask[w, n] == (2 * abs(w * narrow - n * wide) <= band * narrow)


@given(st.integers(1, 16), st.integers(1, 40))
def test_the_least_band_is_the_first_that_connects_every_unit(width, hidden_units):
    def connects(band):
        mask = band_mask(hidden_units, width, band)
        return bool(mask.any(0).all() and mask.any(1).all())

    least = least_band(width, hidden_units)
    assert connects(least)
    assert least == 1 or not connects(least - 1)


def outside(model):
    """The weights outside the bands of all layers."""
    mlps = [layer.mlp for layer in model.model.layers]
    return torch.cat([layer.weight[~layer.mask] for mlp in mlps for layer in (mlp.up, mlp.down)])


def test_weights_outside_begin_and_stay_zero():
    model = build(scale=1.0, **BANDS).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1.0)
    before = model.model.layers[0].mlp.up.weight.detach().clone()
    for _ in range(3):
        model(tokens(4, 6), labels=tokens(4, 6)).loss.backward()
        optimizer.step()
        assert outside(model).numel() > 0
        assert (outside(model) == 0).all()
    mask = model.model.layers[0].mlp.up.mask
    assert (model.model.layers[0].mlp.up.weight[mask] != before[mask]).all()
    assert (model.model.layers[0].mlp.up.bias != 0).all()


def test_what_is_inside_begins_as_the_dense_model_does():
    dense, banded = build(scale=1.0, intermediate_size=96), build(scale=1.0, **BANDS)
    assert banded.state_dict().keys() == dense.state_dict().keys()
    for (name, parameter), (_, expected) in zip(
        banded.named_parameters(), dense.named_parameters(), strict=True
    ):
        module = banded.get_submodule(name.rpartition(".")[0])
        if isinstance(module, BandedLinear) and name.endswith("weight"):
            expected = expected * module.mask
        assert torch.equal(parameter, expected)


def test_the_forward_is_that_of_the_masked_weights():
    banded = build(dtype=torch.float64, **BANDS)
    dense = build(dtype=torch.float64, intermediate_size=96)
    dense.load_state_dict(banded.state_dict())
    with torch.no_grad():
        assert torch.equal(banded(tokens(2, 6)).logits, dense(tokens(2, 6)).logits)
        banded.model.layers[0].mlp.up.weight.add_(1.0)  # outside the band it makes no difference
        dense.model.layers[0].mlp.up.weight.add_(banded.model.layers[0].mlp.up.mask)
        assert torch.equal(banded(tokens(2, 6)).logits, dense(tokens(2, 6)).logits)


@pytest.mark.parametrize("fields", [{"band_fc1": 12}, {"band_fc2": 6}])
def test_one_layer_alone(fields):
    mlp = build(intermediate_size=96, **fields).model.layers[0].mlp
    assert isinstance(mlp.up, BandedLinear) == ("band_fc1" in fields)
    assert isinstance(mlp.down, BandedLinear) == ("band_fc2" in fields)


def test_a_dense_checkpoint_loads_into_bands(tmp_path):
    dense = build(scale=1.0, intermediate_size=96)
    dense.save_pretrained(tmp_path)
    banded = GrokkingTransformerForCausalLM.from_pretrained(tmp_path, band_fc1=12, band_fc2=6)
    assert (outside(banded) == 0).all()
    mlp, expected = banded.model.layers[1].mlp, dense.model.layers[1].mlp
    assert torch.equal(mlp.down.weight, expected.down.weight * band_mask(24, 96, 6))
    assert torch.equal(mlp.up.mask, band_mask(96, 24, 12))


def test_the_residual_projection_begins_smaller():
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "num_hidden_layers": 8, "band_fc1": 40, "band_fc2": 40}
    model = GrokkingTransformerForCausalLM(GrokkingTransformerConfig(**shape))
    mlp = model.model.layers[0].mlp
    assert mlp.up.weight[mlp.up.mask].std().item() == pytest.approx(0.02, rel=0.1)
    assert mlp.down.weight[mlp.down.mask].std().item() == pytest.approx(0.02 / 4, rel=0.1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"band_fc1": 5}, r"band_fc1=5 leaves units of the MLP without .*128 to 512.* all is 6$"),
        ({"band_fc2": 5, "band_fc1": 6}, "band_fc2=5 leaves units of the MLP without connection"),
        ({"band_fc1": 1, "intermediate_size": 256}, "from 128 to 256 units the least.* is 2$"),
        ({"band_fc1": 0}, "band_fc1 must be a whole number of at least 1, got 0"),
        ({"band_fc2": 256.0}, "band_fc2 must be a whole number of at least 1, got 256.0"),
        ({"band_fc2": True}, "band_fc2 must be a whole number of at least 1, got True"),
    ],
)
def test_bands_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        GrokkingTransformerConfig(**fields)


def test_the_least_band_is_taken():
    assert GrokkingTransformerConfig(band_fc1=6, band_fc2=6).band_fc1 == 6
    assert least_band(SMALL["hidden_size"], 4 * SMALL["hidden_size"]) == 6
