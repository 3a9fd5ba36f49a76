"""The hand-written gradients, against autograd's own and against finite differences."""

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from gmb_hf.training.blocks import (
    Workspace,
    answer_loss,
    folded,
    mlp_block,
    normalise,
    weighted_mean,
)

EXACT = {"rtol": 1e-12, "atol": 1e-13}  # of float64, for sums in another order


def numbers(*shape, seed=0, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return drawn.requires_grad_(grad)


def mlp_inputs(dtype=torch.float64):
    """x, up, up_bias, down, down_bias for S=2, n=5, d=4, f=6."""
    shapes = [(2, 5, 4), (2, 6, 4), (2, 1, 6), (2, 4, 6), (2, 1, 4)]
    return [numbers(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def mlp_in_words(x, up, up_bias, down, down_bias, activation):
    normed = functional.layer_norm(x, x.shape[-1:])
    hidden = normed @ up.transpose(1, 2) + up_bias
    hidden = hidden.relu() if activation == "relu" else functional.gelu(hidden, approximate="tanh")
    return x + hidden @ down.transpose(1, 2) + down_bias


def loss_inputs():
    """x, head, head_bias and answers for S=3, n=5, d=4, V=7."""
    shapes = [(3, 5, 4), (3, 7, 4), (3, 1, 7)]
    answers = torch.tensor([[0, 1, 2, 6, 6], [3, 3, 3, 3, 3], [5, 0, 4, 1, 2]])
    return [*(numbers(*shape, seed=9 + i) for i, shape in enumerate(shapes)), answers]


def loss_in_words(x, head, head_bias, answers):
    logits = functional.layer_norm(x, x.shape[-1:]) @ head.transpose(1, 2) + head_bias
    losses = [functional.cross_entropy(*pair) for pair in zip(logits, answers, strict=True)]
    return torch.stack(losses), logits


@pytest.fixture(params=["hand-written", "left to autograd"])
def gradients(request, monkeypatch):
    """Both forms of the functions: their own gradients, and the one that torch.compile traces."""
    if request.param == "left to autograd":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    return request.param


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_mlp_block_is_the_formula_with_its_gradient(activation, gradients):
    inputs = mlp_inputs()
    seen = numbers(2, 5, 4, seed=20, grad=False)
    found = mlp_block(*inputs, activation=activation, workspace=Workspace(), name="layer")
    expected = mlp_in_words(*inputs, activation)
    torch.testing.assert_close(found, expected, **EXACT)
    for own, autograd in zip(
        torch.autograd.grad((found * seen).sum(), inputs),
        torch.autograd.grad((expected * seen).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(own, autograd, **EXACT)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_mlp_block_passes_gradcheck(activation):
    def block(*inputs):
        return mlp_block(*inputs, activation=activation, workspace=Workspace(), name="layer")

    assert gradcheck(block, mlp_inputs())


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_mlp_block_without_gradient_gives_the_same_and_leaves_its_input(activation):
    inputs = mlp_inputs()
    options = {"activation": activation, "workspace": Workspace(), "name": "layer"}
    with_gradient = mlp_block(*inputs, **options)
    copies = [value.detach().clone() for value in inputs]
    with torch.no_grad():
        torch.testing.assert_close(mlp_block(*inputs, **options), with_gradient, **EXACT)
    for value, copy in zip(inputs, copies, strict=True):
        assert torch.equal(value, copy)


def test_two_layers_of_one_workspace_keep_their_buffers_apart():
    x, *weights = mlp_inputs()
    workspace = Workspace()

    def two_blocks(block):
        return block(block(x, "first"), "second")

    def fused(value, name):
        return mlp_block(value, *weights, activation="relu", workspace=workspace, name=name)

    found = two_blocks(fused)
    expected = two_blocks(lambda value, _: mlp_in_words(value, *weights, "relu"))
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), x)[0],
        torch.autograd.grad(expected.square().sum(), x)[0],
        **EXACT,
    )


def test_workspace_hands_out_one_buffer_per_name_shape_and_dtype():
    workspace = Workspace()
    like = torch.zeros(1)
    first = workspace.get("a", (2, 3), like)
    assert workspace.get("a", (2, 3), like) is first
    assert first.shape == (2, 3)
    others = [
        workspace.get("b", (2, 3), like),
        workspace.get("a", (3, 2), like),
        workspace.get("a", (2, 3), like.double()),
    ]
    assert len({buffer.data_ptr() for buffer in [first, *others]}) == 4
    assert others[2].dtype == torch.float64


def test_answer_loss_is_cross_entropy_with_its_gradient(gradients):
    *inputs, answers = loss_inputs()
    weights = torch.tensor([1.0, -0.5, 3.0], dtype=torch.float64)  # each seed keeps its own
    losses, logits = answer_loss(*inputs, answers, keep_logits=True)
    expected, expected_logits = loss_in_words(*inputs, answers)
    torch.testing.assert_close(losses, expected, **EXACT)
    torch.testing.assert_close(logits, expected_logits.detach(), **EXACT)
    assert not logits.requires_grad
    for own, autograd in zip(
        torch.autograd.grad((losses * weights).sum(), inputs),
        torch.autograd.grad((expected * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(own, autograd, **EXACT)


def test_answer_loss_has_the_gradient_of_finite_differences():
    *inputs, answers = loss_inputs()
    weights = torch.tensor([1.0, -0.5, 3.0], dtype=torch.float64)

    def total():
        return (answer_loss(*inputs, answers, keep_logits=False)[0] * weights).sum()

    for value, own in zip(inputs, torch.autograd.grad(total(), inputs), strict=True):
        slopes = torch.empty_like(value)
        for index in range(value.numel()):
            entry, ends = value.data.view(-1), []
            for step in (1e-6, -1e-6):
                entry[index] += step
                ends.append(total().detach())
                entry[index] -= step
            slopes.view(-1)[index] = (ends[0] - ends[1]) / 2e-6
        torch.testing.assert_close(own, slopes, rtol=1e-6, atol=1e-8)


def test_a_second_backward_of_the_answer_loss_gives_the_same_gradient_again():
    x, *others = loss_inputs()
    losses, _ = answer_loss(x, *others, keep_logits=False)
    first, second = (
        torch.autograd.grad(losses.sum(), x, retain_graph=again)[0] for again in (True, False)
    )
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_answer_loss_keeps_logits_only_on_request():
    losses, logits = answer_loss(*loss_inputs(), keep_logits=False)
    assert losses.shape == (3,)
    assert logits.numel() == 0


def test_normalise_is_layer_norm_without_gain_and_shift():
    x = numbers(2, 3, 5, grad=False)
    centred = x - x.mean(-1, keepdim=True)
    by_hand = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(normalise(x), by_hand, **EXACT)


@pytest.mark.parametrize("with_bias", [True, False])
def test_folded_moves_gain_and_shift_into_the_weights(with_bias):
    x, weight = numbers(2, 5, 4, grad=False), numbers(2, 3, 4, seed=1, grad=False)
    gain, shift = numbers(2, 4, seed=2, grad=False), numbers(2, 4, seed=3, grad=False)
    bias = numbers(2, 3, seed=4, grad=False) if with_bias else None
    moved, moved_bias = folded(weight, bias, gain, shift)
    assert moved_bias.shape == (2, 1, 3)
    scaled = x * gain.unsqueeze(1) + shift.unsqueeze(1)
    expected = scaled @ weight.transpose(1, 2) + (0 if bias is None else bias.unsqueeze(1))
    torch.testing.assert_close(x @ moved.transpose(1, 2) + moved_bias, expected, **EXACT)


def sums_of(scores, values):
    """Two heads of three channels: weighted sums and sums of weights, side by side."""
    weights = scores.exp()  # [S, n, keys, h]
    numerator = (weights.unsqueeze(-1) * values).sum(2).flatten(2)
    return torch.cat([numerator, weights.sum(2)], dim=-1)


def test_weighted_mean_is_the_softmax_average_with_its_gradient():
    scores, values = numbers(2, 3, 4, 2), numbers(2, 3, 4, 2, 3, seed=1)
    seen = numbers(2, 3, 6, seed=2, grad=False)
    found = weighted_mean(sums_of(scores, values), heads=2)
    expected = (scores.softmax(2).unsqueeze(-1) * values).sum(2).flatten(2)
    torch.testing.assert_close(found, expected, **EXACT)
    for own, autograd in zip(
        torch.autograd.grad((found * seen).sum(), [scores, values]),
        torch.autograd.grad((expected * seen).sum(), [scores, values]),
        strict=True,
    ):
        torch.testing.assert_close(own, autograd, **EXACT)


def test_weighted_mean_passes_gradcheck():
    sums = torch.cat([numbers(2, 3, 6, grad=False), 1 + torch.rand(2, 3, 2).double()], dim=-1)
    assert gradcheck(lambda value: weighted_mean(value, 2), [sums.requires_grad_()])


@pytest.mark.parametrize("exponent", [-75.0, -50.0, 0.0, 50.0, 75.0])
def test_weighted_mean_survives_weights_whose_square_no_float32_holds(exponent):
    assert abs(exponent) < 50 or math.exp(abs(2 * exponent)) > torch.finfo(torch.float32).max
    scores = numbers(1, 2, 4, 2, dtype=torch.float32, grad=False)
    values = numbers(1, 2, 4, 2, 3, seed=1, dtype=torch.float32, grad=False)
    moved = (scores + exponent).requires_grad_()
    plain = scores.clone().requires_grad_()
    found = weighted_mean(sums_of(moved, values), heads=2)
    expected = (plain.softmax(2).unsqueeze(-1) * values).sum(2).flatten(2)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved.grad, plain.grad, rtol=1e-4, atol=1e-5)
