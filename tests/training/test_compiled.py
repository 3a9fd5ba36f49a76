"""torch.compile where it pays: when it is asked for, that it changes nothing, and its absence."""

import pytest
import torch
from training_builders import small_config, train_together

from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.presets import preset
from gmb_hf.training.seeds import train_stacked
from gmb_hf.training.stacked import WORTH_COMPILING, CompiledLosses, SeedStack, pays, wanted
from gmb_hf.training.variants import parse_variant


@pytest.fixture
def traced_only(monkeypatch):
    """Trace and differentiate as torch.compile does, without its compiler, which takes long."""
    compile_with = torch.compile
    torch._dynamo.reset()
    monkeypatch.setattr(
        torch, "compile", lambda f, **options: compile_with(f, backend="aot_eager", **options)
    )


@pytest.fixture
def broken(monkeypatch):
    """A machine without a compiler."""

    def cannot(function, **_):
        def raises(*_):
            raise RuntimeError("no C++ compiler")

        return raises

    monkeypatch.setattr(torch, "compile", cannot)


def test_always_never_and_where_it_pays():
    config = preset("quick")
    assert wanted(config.changed(["training.compile=always"]), 1)
    assert not wanted(config.changed(["training.compile=never"]), 10**6)
    for count in (1, 10**6):
        assert wanted(config, count) == pays(config, count)


def test_it_pays_in_proportion_to_the_work():
    config = small_config(
        task={"train_rows": 20}, model={"width": 8, "mlp_width": 12}, training={"steps": 20}
    )
    one_seed = 20 * (2 * 8 * 12 * 3) * 20  # rows, MLP forward and twice that back, steps
    enough = -(-int(WORTH_COMPILING) // one_seed)
    assert pays(config, enough)
    assert not pays(config, enough - 1)
    longer = config.changed(["training.steps=40"])
    assert pays(longer, -(-enough // 2))
    sorts = config.changed(["model.sort_window=4"])  # needs both rows of an equation
    assert pays(sorts, -(-enough // 2))
    assert not pays(sorts, -(-enough // 2) - 1)
    assert not pays(preset("smoke"), 34)
    assert pays(preset("standard"), 392)


def test_compiled_steps_are_the_same_to_rounding(traced_only):
    fields = parse_variant("sort-3+blend-8").fields
    config = small_config(model={"activation": "gelu_new", **fields})
    plain = SeedStack(config, [0, 1], dtype=torch.float64)
    compiled = SeedStack(config, [0, 1], dtype=torch.float64, compiled=True)
    found, expected = train_together(compiled, 4), train_together(plain, 4)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    for name, weight in plain.weights.items():
        assert compiled.weights[name].grad is not None, name
        torch.testing.assert_close(compiled.weights[name], weight, rtol=1e-6, atol=1e-7)


def test_where_compiling_fails_training_goes_on_and_says_so_once(broken, recwarn):
    config = small_config()
    stack = SeedStack(config, [0, 1], compiled=True)
    found = train_together(stack, 5)
    assert torch.equal(found, train_together(SeedStack(config, [0, 1]), 5))
    messages = [str(w.message) for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert messages == [
        "torch.compile does not work here (RuntimeError); training goes on without it, a little "
        "slower"
    ]


def test_other_losses_than_the_plain_forward_are_not_trained_by(monkeypatch, recwarn):
    """As torch gave from kernels that it had cached under another instruction set."""

    def spoiled(function, **_):
        def run(*arguments):
            losses, logits = function(*arguments)
            return losses * float("nan"), logits

        return run

    monkeypatch.setattr(torch, "compile", spoiled)
    config = small_config()
    found = train_together(SeedStack(config, [0, 1], compiled=True), 5)
    assert torch.equal(found, train_together(SeedStack(config, [0, 1]), 5))
    (message,) = [str(w.message) for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert message == (
        "torch.compile gives other losses here than the plain forward; training goes on without "
        "it, a little slower"
    )


def test_an_error_after_compiling_has_worked_is_not_hidden(monkeypatch):
    calls = []

    def once(function, **_):
        def run(*arguments):
            calls.append(1)
            if len(calls) > 1:
                raise RuntimeError("out of memory")
            return function(*arguments)

        return run

    monkeypatch.setattr(torch, "compile", once)
    stack = SeedStack(small_config(), [0])
    losses = CompiledLosses(stack.train)
    assert losses(stack.weights)[0].shape == (1,)
    with pytest.raises(RuntimeError, match="out of memory"):
        losses(stack.weights)
    assert losses.works


@pytest.mark.filterwarnings("ignore:torch.compile (does not work|gives other losses)")
def test_a_folder_trained_without_a_compiler_is_whole(broken, tmp_path):
    config = small_config(training={"compile": "always"})
    train_stacked(config, [0, 1], tmp_path)
    assert RunLog.read(tmp_path / "logs").seeds == (0, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.compile (does not work|gives other losses)")
def test_logits_survive_the_backward_pass_of_the_real_compiler():
    config = small_config()
    compiled, plain = SeedStack(config, [0, 1], compiled=True), SeedStack(config, [0, 1])
    losses = compiled.gradients()[0]
    if not compiled._compiled.works:
        pytest.skip("torch.compile does not work on this machine")
    torch.testing.assert_close(losses, plain.gradients()[0])
    for name, weight in plain.weights.items():
        torch.testing.assert_close(compiled.weights[name].grad, weight.grad, msg=name)
    losses, logits = compiled.gradients(keep_logits=True)  # a checkpoint needs logits
    torch.testing.assert_close(losses, plain.gradients()[0])
    expected = plain.gradients(keep_logits=True)[1]
    torch.testing.assert_close(logits, expected)
    assert expected.abs().max() > 0
