"""Language models: resumed, shared out, in parts, the training is the same."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from launched import together
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM, AutoTokenizer

from gmb_hf.base.errors import InputError
from gmb_hf.hub.models import read_described_model, write_short_card
from gmb_hf.protocol.language.config import (
    ConsistencySettings,
    LanguageConfig,
    LanguageTraining,
    language_preset,
)
from gmb_hf.protocol.language.data import load_tokenizer
from gmb_hf.protocol.language.heldout import load_checkpoint
from gmb_hf.protocol.language.train import (
    LossBar,
    make_optimizer,
    model_shape,
    share_of_batch,
    train,
)
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.text import TextFile
from gmb_hf.training.launch import Listener, exit_code, make_accelerator
from gmb_hf.training.stacked import seeded_model
from gmb_hf.training.tracking import SeedTracking, Tracking

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "trainers" / "train_language_model.py"
SMOKE = language_preset("smoke")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> TextFile:
    path = tmp_path_factory.mktemp("text") / "story.txt"
    rng = np.random.default_rng(0)
    words = ["cat", "dog", "sat", "ran", "the", "a", "on", "mat"]
    tales = (" ".join(rng.choice(words, size=40)) + "." for _ in range(40))
    path.write_text("\n<|endoftext|>\n".join(tales), encoding="utf-8")
    return TextFile("story", path)


def trained(
    out: Path,
    story: TextFile,
    config: LanguageConfig = SMOKE,
    *,
    seeds: tuple[int, ...] = (3,),
    listener: Any = None,
) -> tuple[RunLog, dict[str, torch.Tensor]]:
    """Log and weights of the last seed."""
    accelerator = make_accelerator(
        cpu=True,
        mixed_precision=config.training.precision,
        gradient_accumulation_steps=config.training.accumulate,
    )
    folders = train(config, seeds, out, texts=[story], accelerator=accelerator, listener=listener)
    log = RunLog.read(out / "logs")
    return log, load_file(folders[-1] / "model.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, story: TextFile) -> Any:
    out = tmp_path_factory.mktemp("whole")
    return out, *trained(out, story)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=tolerance, atol=tolerance)


def test_the_log_is_a_run_log_that_other_commands_read(whole: Any):
    _, log, _ = whole
    assert log.runs == ("seed_3",)
    assert log.seeds == (3,)
    assert log.panel("step").values.tolist() == [[0.0, 4.0, 8.0]]
    assert log.panel("tokens").values.tolist() == [[0.0, 512.0, 1024.0]]
    for name in ("train_loss", "test_loss"):
        losses = log.panel(name).values[0]
        assert losses[0] == pytest.approx(np.log(259), abs=0.1)
        assert losses[-1] < losses[0]
    assert log.metadata["task"] == "next token of story"
    assert log.metadata["config"]["texts"]["train_content_hash"]


def test_a_checkpoint_is_model_and_tokenizer_in_one_folder(whole: Any):
    out, _, _ = whole
    folder = out / "checkpoints" / "seed_3"
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer) == 259
    assert model.config.eos_token_id == tokenizer.eos_token_id
    about = json.loads((folder / "training_text.json").read_text())
    assert about["texts"][0]["name"] == "story"
    assert sum(about["byte_counts"]) == about["bytes"]
    assert about["documents"] == 40
    assert not (out / "state" / "seed_3").exists()


def test_its_card_tells_of_the_text_and_its_lines_run(whole: Any, tmp_path: Path):
    out, log, _ = whole
    folder = out / "checkpoints" / "seed_3"
    described = read_described_model(folder)
    assert described is not None
    assert described.learned == "text (story)"
    shown = f"{log.panel('test_loss').values[0, -1]:.4f}"
    assert described.results[1] == ("held-out text", shown)
    text = write_short_card(described, tmp_path, place=str(folder)).read_text()
    assert "seed: 3" in text
    assert described.fingerprints["training text"].fingerprint in text
    assert "steps: 8" in text
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(text.split("```python\n")[1].split("\n```")[0], {})
    assert printed.getvalue().strip() == described.answered.strip()


def test_its_losses_go_to_a_tracker(story: TextFile, tmp_path: Path):
    out = tmp_path / "stories"
    with Tracking(["tensorboard"], out, project="gmb-language", config={}) as tracking:
        log, _ = trained(out, story, listener=SeedTracking(tracking, Listener()))
    events = EventAccumulator(str(out / "trackers" / "stories" / "seed_3"))
    events.Reload()
    losses = {event.step: event.value for event in events.Scalars("test_loss")}
    assert list(losses) == [0, 4, 8]
    assert list(losses.values()) == pytest.approx(log.panel("test_loss").values[0].tolist())


class Interrupting(Listener):
    """Raises at its n-th update."""

    def __init__(self, number: int) -> None:
        self.left = number

    def advanced(self, units: int) -> None:
        self.left -= units > 0
        if self.left == 0:
            raise KeyboardInterrupt


def test_interrupted_equals_uninterrupted(whole: Any, story: TextFile, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, story, listener=Interrupting(7))
    (state,) = (tmp_path / "state" / "seed_3").iterdir()
    assert state.name == "step-4"
    assert RunLog.read(tmp_path / "logs").panel("step").values.tolist() == [[0.0, 4.0]]
    heard = Interrupting(100)
    log, weights = trained(tmp_path, story, listener=heard)
    assert 100 - heard.left == 1 + 4, "the first four steps were made again"
    assert log.fingerprint() == whole[1].fingerprint()
    same(weights, whole[2], 0)


def test_a_finished_seed_is_left_alone_and_others_are_added(
    whole: Any, story: TextFile, tmp_path: Path
):
    trained(tmp_path, story)
    held = tmp_path / "checkpoints" / "seed_3" / "model.safetensors"
    before = held.stat().st_mtime_ns
    log, _ = trained(tmp_path, story, seeds=(3, 5))
    assert held.stat().st_mtime_ns == before
    assert log.runs == ("seed_3", "seed_5")
    same(load_file(held), whole[2], 0)


def changed(**fields: Any) -> LanguageConfig:
    return SMOKE.replace(training=SMOKE.training.replace(**fields))


def test_parts_of_a_batch_give_the_same(whole: Any, story: TextFile, tmp_path: Path):
    log, weights = trained(tmp_path, story, changed(accumulate=2))
    same(weights, whole[2], 1e-5)
    np.testing.assert_allclose(
        log.panel("test_loss").values, whole[1].panel("test_loss").values, rtol=1e-5
    )


@pytest.fixture
def another_accelerator() -> Iterator[None]:
    """Accelerate keeps its precision for as long as a process lives."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("another_accelerator")
def test_mixed_precision_is_near_it(whole: Any, story: TextFile, tmp_path: Path):
    log, weights = trained(tmp_path, story, changed(precision="bf16"))
    assert all(value.dtype == torch.float32 for value in weights.values())
    exact = whole[1].panel("test_loss").values
    near = log.panel("test_loss").values
    assert (near != exact).any()
    np.testing.assert_allclose(near, exact, rtol=1e-2)


def train_language_share(
    environment: Mapping[str, str], config: LanguageConfig, seed: int, text: TextFile, out: Path
) -> None:
    """Train a language model as one of several processes, 2 for bad input; runs in a child."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    accelerator = make_accelerator(cpu=True)
    assert accelerator.num_processes == int(environment["WORLD_SIZE"])

    def work() -> None:
        train(config, [seed], out, texts=[text], accelerator=accelerator)

    sys.exit(exit_code(work))


def test_two_processes_equal_one(whole: Any, story: TextFile, tmp_path: Path):
    # Three prompts for two processes: one has more to do.
    sampled = SMOKE.replace(consistency=ConsistencySettings(prompts=3))
    out = tmp_path / "two"
    assert together(train_language_share, sampled, 3, story, out, processes=2) == [0, 0]
    weights = load_file(out / "checkpoints" / "seed_3" / "model.safetensors")
    same(weights, whole[2], 1e-5)
    two, one = RunLog.read(out / "logs"), trained(tmp_path / "one", story, sampled)[0]
    assert set(two.observables) - set(whole[1].observables) == {"self_consistency_disagreement"}
    for name in two.observables:
        np.testing.assert_allclose(two.panel(name).values, one.panel(name).values, rtol=1e-5)


def test_a_bad_text_stops_every_process(tmp_path: Path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"Jos\xe9 " * 1000)
    text = TextFile("bad", bad)
    with pytest.raises(InputError, match=r"bad.txt: is not UTF-8 text \(byte 3\); convert it"):
        trained(tmp_path / "one", text)
    # Only the first reads it; the other one waits for its word.
    assert together(train_language_share, SMOKE, 3, text, tmp_path, processes=2) == [2, 2]


def test_a_user_trains_on_a_file(story: TextFile, tmp_path: Path, capsys: Any):
    text = f"story={story.path}"
    out = tmp_path / "out"
    assert script_main()(["--cpu", "--preset", "smoke", "--text", text, "--out", str(out)]) == 0
    folder = out / "checkpoints" / "seed_1337"
    assert capsys.readouterr().out.splitlines() == [
        str(folder),
        f"next: gmb heldout --checkpoint {folder} --text {text} --out {out}/heldout",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--text", "tiny"), "error: --text: text 'tiny' is unknown"),
        (("--preset", "gpt3"), "error: preset 'gpt3' is unknown; known: byte, gpt2, smoke"),
        (("--set", "training.batches=2"), "field 'batches' is unknown"),
        (("--test-text", "x=none.txt"), "error: none.txt: there is no such file"),
        (("--set", "text.block=4096"), "error: training text: only"),
    ],
)
def test_a_wrong_argument_is_one_line(
    story: TextFile, tmp_path: Path, arguments: tuple[str, ...], message: str, capsys: Any
):
    main = script_main()
    code = main(
        [
            *("--cpu", "--preset", "smoke", "--text", f"s={story.path}"),
            *("--out", str(tmp_path / "out"), *arguments),
        ]
    )
    assert code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def script_main() -> Callable[[list[str]], int]:
    from gmb_hf.jobs.trainers.language import main

    return main


def test_another_text_or_config_in_the_folder_is_refused(story: TextFile, tmp_path: Path):
    trained(tmp_path, story, changed(steps=4))
    with pytest.raises(InputError, match=r"holds runs of another config \(training.lr: 0.002 -> "):
        trained(tmp_path, story, changed(steps=4, lr=1e-3))
    other = tmp_path / "other.txt"
    other.write_text("Another text. " * 100, encoding="utf-8")
    with pytest.raises(InputError, match=r"another config \(texts.train_content_hash"):
        trained(tmp_path, TextFile("story", other), changed(steps=4))


def test_a_batch_that_cannot_be_shared_out():
    assert share_of_batch(changed(batch=12, accumulate=2), 3) == 2
    with pytest.raises(InputError, match=r"batch=4 cannot be shared out to 3 .* multiple of 6"):
        share_of_batch(changed(batch=4, accumulate=2), 3)


def test_a_state_that_is_no_state(story: TextFile, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, story, listener=Interrupting(7))
    progress = tmp_path / "state" / "seed_3" / "step-4" / "progress.json"
    whole, weights = progress.read_text(), progress.with_name("model.safetensors")
    progress.write_text(whole.replace('"step": [0, ', '"step": [1, '))
    with pytest.raises(InputError, match=r"the hash of progress.json differs: it was damaged or"):
        trained(tmp_path, story)
    progress.write_text(whole)
    content = weights.read_bytes()
    weights.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(InputError, match=r"the hash of model.safetensors differs: it was damaged"):
        trained(tmp_path, story)
    progress.write_text("{")
    with pytest.raises(InputError, match=r"not a state of an interrupted training .*; delete it"):
        trained(tmp_path, story)
    progress.write_text(json.dumps({"identity": "another", "columns": {}}))
    with pytest.raises(InputError, match="training of another config; delete it"):
        trained(tmp_path, story)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 10, "checkpoint_every": 3}, "no multiple of checkpoint_every=3"),
        ({"batch": 5, "accumulate": 2}, "batch=5 is no multiple of accumulate=2"),
        ({"lr": 0.0}, "training: lr must be greater than 0, got 0.0"),
        ({"weight_decay": -1.0}, "weight_decay must be greater than or equal to 0, got -1.0"),
        ({"warmup": -1}, "warmup must be greater than or equal to 0, got -1"),
        ({"precision": "bf17"}, "precision 'bf17' is unknown.*Did you mean 'bf16'"),
    ],
)
def test_bad_settings(fields: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        LanguageTraining.of(**fields)


def test_bad_text_settings():
    for assignment, message in [
        ("text.block=0", "text.block must be greater than or equal to 1, got 0"),
        ("text.test_share=1", "text.test_share must be less than 1, got 1.0"),
        ("text.separator=", "text: separator is empty"),
    ]:
        with pytest.raises(InputError, match=message):
            SMOKE.changed([assignment])


def test_the_rate_warms_up_and_falls_to_a_tenth():
    training = LanguageTraining(steps=100, checkpoint_every=50, lr=1.0, warmup=10)
    assert [training.rate(step) for step in (0, 9)] == [0.1, 1.0]
    assert training.rate(55) == pytest.approx(0.55)
    assert training.rate(99) == pytest.approx(0.1, abs=1e-3)


def test_the_published_model_has_its_size_and_sees_its_tokens():
    config = language_preset("gpt2")
    shape = config.model.replace()
    per_layer = 12 * shape.width**2 + 13 * shape.width
    vocabulary, block = 50257, config.text.block
    parameters = shape.layers * per_layer + (vocabulary + block + 2) * shape.width
    assert parameters == pytest.approx(7.3e6, rel=0.01)
    assert config.training.steps * config.training.batch * block == pytest.approx(82e6, rel=0.01)


def test_decay_acts_on_matrices_and_mixers_learn_faster():
    config = SMOKE.changed(["model.sort_window=4"])
    model = seeded_model(model_shape(config, load_tokenizer("byte")), 0)
    groups = make_optimizer(model, config).param_groups
    assert [(group["weight_decay"], group["scale"]) for group in groups] == [
        (0.1, 1.0),
        (0.0, 1.0),
        (0.0, 10.0),
    ]
    assert all(value.ndim > 1 for value in groups[0]["params"])
    total = sum(value.numel() for group in groups for value in group["params"])
    assert total == sum(value.numel() for value in model.parameters())


def test_a_variant_is_trained_and_loads_again(story: TextFile, tmp_path: Path):
    config = changed(steps=4).changed(["model.band_fc1=16", "model.blend_window=4"])
    trained(tmp_path, story, config)
    checkpoint = load_checkpoint(str(tmp_path / "checkpoints" / "seed_3"))
    assert checkpoint.model.config.blend_window == 4
    assert RunLog.read(tmp_path / "logs").metadata["model"].endswith("banded-16-none+blend-4")


def test_the_bar_shows_losses_on_one_line():
    from io import StringIO

    from rich.console import Console

    screen = Console(file=StringIO(), width=80, force_terminal=True)
    with LossBar(100, console=screen) as bar:
        bar.advanced(50)
        bar.measured([1], {"train_loss": 2.5, "test_loss": 2.75})
    assert "train 2.500 test 2.750" in screen.file.getvalue()
