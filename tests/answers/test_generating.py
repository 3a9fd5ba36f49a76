"""Answers of checkpoints: explicit draws, any batch, resumed, atomic; and which checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers_builders import save_causal, save_spaced
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, ByT5Tokenizer

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import claim
from gmb_hf.base.pretrained import find_model
from gmb_hf.protocol.answers import generating
from gmb_hf.protocol.answers.files import read_answers, read_prompts
from gmb_hf.protocol.answers.generating import AnswerSampling, about_path, generate
from gmb_hf.protocol.answers.models import Model, Saved, find_checkpoints
from gmb_hf.protocol.language.train import continuations
from gmb_hf.runs.runlog import RunLog

PROMPTS = ("the ", "a cat", "the dog ", "bird")
SAMPLING = AnswerSampling(samples=3, new_tokens=3)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with two checkpoints each, as a Trainer leaves them."""
    folder = tmp_path_factory.mktemp("outputs")
    for run in range(2):
        for step in (5, 10):
            save_causal(folder / f"seed_{run}" / f"checkpoint-{step}", seed=10 * run + step)
    return folder


def answered(outputs: Path, out: Path, sampling: AnswerSampling = SAMPLING, **more: Any) -> int:
    return generate(find_checkpoints([str(outputs)]), PROMPTS, out, sampling, **more)


@pytest.fixture(scope="module")
def whole(outputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    assert answered(outputs, out) == 4
    return out


def test_every_checkpoint_answers_every_prompt(whole: Path) -> None:
    found = read_answers(whole)
    keys = [(one.run, one.step, one.prompt, one.sample) for one in found]
    assert keys == [
        (f"seed_{run}", step, prompt, sample)
        for run in range(2)
        for step in (5, 10)
        for prompt in PROMPTS
        for sample in range(3)
    ]
    assert len({one.answer for one in found}) > 20
    about = json.loads(about_path(whole).read_text())
    assert (about["samples"], about["temperature"]) == (3, 0.7)
    assert set(about["checkpoints"]) == {"seed_0 5", "seed_0 10", "seed_1 5", "seed_1 10"}


@pytest.mark.parametrize("batch", [1, 5])
def test_batches_and_torchs_own_generator_change_nothing(
    outputs: Path, whole: Path, tmp_path: Path, batch: int
) -> None:
    torch.manual_seed(batch)
    state = torch.get_rng_state()
    answered(outputs, tmp_path / "a.jsonl", batch=batch)
    assert (tmp_path / "a.jsonl").read_bytes() == whole.read_bytes()
    assert torch.equal(torch.get_rng_state(), state)


def test_more_prompts_and_samples_leave_the_others(
    outputs: Path, whole: Path, tmp_path: Path
) -> None:
    checkpoints = find_checkpoints([str(outputs)])
    more = AnswerSampling(samples=5, new_tokens=3)
    generate(checkpoints, ("new one", *PROMPTS[:2]), tmp_path / "a.jsonl", more)
    known = set(read_answers(whole))
    again = [one for one in read_answers(tmp_path / "a.jsonl") if one.sample < 3]
    assert {one for one in again if one.prompt in PROMPTS} <= known
    other = AnswerSampling(samples=3, new_tokens=3, seed=1)
    answered(outputs, tmp_path / "b.jsonl", other)
    assert len(known & set(read_answers(tmp_path / "b.jsonl"))) < len(known) / 2


def test_killed_half_way_and_resumed(
    outputs: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.jsonl"
    real, asked = generating.answers_of, []

    def counted(model: Any, saved: Saved, *rest: Any) -> Any:
        asked.append((saved.run, saved.step))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return real(model, saved, *rest)

    monkeypatch.setattr(generating, "answers_of", counted)
    with pytest.raises(KeyboardInterrupt):
        answered(outputs, out)
    assert len(read_answers(out)) == 2 * 12
    # Killed after the answers were written and before the note was.
    lines = whole.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[: 3 * 12]))
    assert answered(outputs, out) == 2
    assert asked[3:] == [("seed_1", 5), ("seed_1", 10)]
    assert out.read_bytes() == whole.read_bytes()
    assert answered(outputs, out) == 0
    assert len(asked) == 5


def test_new_checkpoints_are_added(outputs: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    few = find_checkpoints([str(outputs / "seed_1")])
    assert generate(few, PROMPTS, out, SAMPLING) == 2
    assert answered(outputs, out) == 2
    assert set(read_answers(out)) == set(read_answers(whole))


def test_a_file_of_other_answers_is_left_alone(outputs: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    shutil.copy(whole, out)
    with pytest.raises(InputError, match="exists, and nothing says what made it"):
        answered(outputs, out)
    shutil.copy(about_path(whole), about_path(out))
    before = out.read_bytes()
    with pytest.raises(InputError, match=r"made otherwise \(samples: 3 there, 4 now\); choose an"):
        answered(outputs, out, AnswerSampling(samples=4, new_tokens=3))
    with pytest.raises(InputError, match=r"made otherwise \(prompts: "):
        generate(find_checkpoints([str(outputs)]), ("other",), out, SAMPLING)
    moved = Saved("seed_0", 5, outputs / "seed_1" / "checkpoint-5")
    with pytest.raises(InputError, match="step 5 from other weights than those of"):
        generate([moved], PROMPTS, out, SAMPLING)
    assert out.read_bytes() == before
    out.unlink()
    with pytest.raises(InputError, match=r"a.jsonl: is gone, but .*about.json says what it held"):
        answered(outputs, out)
    about_path(out).write_text("[]")
    with pytest.raises(InputError, match=r"says nothing of answers; remove it with a.jsonl"):
        answered(outputs, out)


def test_one_process_writes_a_file_of_answers(outputs: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    with (
        claim(out, "held by the test"),
        pytest.raises(InputError, match=r"a.jsonl: another process writes answers here; wait"),
    ):
        answered(outputs, out)
    assert not out.exists()
    assert answered(outputs, out) == 4
    assert out.read_bytes() == whole.read_bytes()


def test_answers_that_are_gone_are_missed(outputs: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    shutil.copy(about_path(whole), about_path(out))
    out.write_text("".join(whole.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match=r"a.jsonl: has 11 of the 12 answers of 'seed_1 10' that"):
        answered(outputs, out)


def test_greedy_is_what_transformers_generates(outputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    answered(outputs, out, AnswerSampling(samples=1, new_tokens=3, greedy=True))
    words = ByT5Tokenizer(extra_ids=0)
    for one in read_answers(out)[:4]:
        model = AutoModelForCausalLM.from_pretrained(outputs / "seed_0" / "checkpoint-5")
        ids = torch.tensor([[1, *words(one.prompt, add_special_tokens=False)["input_ids"]]])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, pad_token_id=1
        )
        assert words.decode(made[0, ids.shape[1] :], skip_special_tokens=True) == one.answer


def test_an_answer_keeps_the_space_with_which_it_begins(tmp_path: Path) -> None:
    """Alone, tokens of this tokenizer lose it, and a judge would read "the catsat"."""
    loaded = Model(find_model(str(save_spaced(tmp_path))), "causal")
    begun = [1, *loaded.ids("the cat")]
    sat, end = loaded.ids("sat"), [1]
    assert loaded.tokenizer.decode(sat) == "sat"
    assert loaded.text_after(begun, sat + end) == " sat"
    assert loaded.text_after(begun, loaded.ids("sat on")) == " sat on"
    assert loaded.text_after([1], sat) == "sat"


def test_draws_follow_the_probabilities(causal: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(causal).eval()
    prompt = torch.tensor([[1, 100, 101]])
    draws = np.random.default_rng(0).random((4000, 1))
    drawn = continuations(
        model, prompt.expand(4000, -1), new_tokens=1, draws=draws, temperature=0.5
    )
    logits = model(prompt).logits[0, -1].double()
    expected = torch.softmax(logits / 0.5, -1).detach().numpy()
    counts = np.bincount(drawn[:, 0].numpy(), minlength=len(expected))
    assert np.abs(counts / 4000 - expected).max() < 4 * np.sqrt(0.25 / 4000)
    assert model.generation_config.max_new_tokens is None


@pytest.mark.parametrize("greedy", [True, False])
def test_a_model_that_has_diverged_says_nothing(tmp_path: Path, greedy: bool) -> None:
    place = save_causal(tmp_path / "seed_0" / "checkpoint-5")
    weights = load_file(place / "model.safetensors")
    spoiled = {name: value * torch.nan for name, value in weights.items()}
    save_file(spoiled, place / "model.safetensors", metadata={"format": "pt"})
    sampling = AnswerSampling(samples=1, new_tokens=2, greedy=greedy)
    with pytest.raises(InputError, match=r"checkpoint-5: the model gives NaN .*leave this checkpo"):
        answered(tmp_path, tmp_path / "a.jsonl", sampling)


def test_the_lowest_temperature_takes_the_likeliest_token(causal: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(causal).eval()
    rows = torch.tensor([[1, 100, 101]])
    draws = np.random.default_rng(0).random((1, 4))
    cold = continuations(model, rows, new_tokens=4, draws=draws, temperature=5e-324)
    assert torch.equal(cold, continuations(model, rows, new_tokens=4))


def test_a_model_without_a_cache_is_continued_too() -> None:
    from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM

    torch.manual_seed(0)
    shape = {"vocab_size": 20, "max_position_embeddings": 12, "hidden_size": 8}
    shape |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = GrokkingTransformerConfig(**shape, sort_window=3, initializer_range=0.5)
    model = GrokkingTransformerForCausalLM(config).eval()
    draws = np.random.default_rng(0).random((3, 5))
    rows = torch.arange(12).view(3, 4)
    together = continuations(model, rows, new_tokens=5, draws=draws)
    alone = [
        continuations(model, rows[i : i + 1], new_tokens=5, draws=draws[i : i + 1])
        for i in range(3)
    ]
    assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "--samples must be a whole number of at least 1"),
        ({"new_tokens": 0}, "--new-tokens must be a whole number of at least 1"),
        ({"temperature": 0.0}, "--temperature must be more than 0"),
        ({"seed": -1}, "--seed must be at least 0, got -1"),
        ({"greedy": True}, "--greedy gives one answer; leave --samples out"),
    ],
)
def test_samplings_that_are_none(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AnswerSampling(**settings)


def test_a_prompt_that_is_too_long(outputs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes 48 tokens, and with the prompt 'the dog ' there"):
        answered(outputs, tmp_path / "a.jsonl", AnswerSampling(samples=1, new_tokens=50))


class TestPrompts:
    def test_a_line_each(self, tmp_path: Path) -> None:
        (tmp_path / "p.txt").write_bytes(b"one \r\n\n two\n")
        assert read_prompts(tmp_path / "p.txt") == ("one ", " two")
        (tmp_path / "p.jsonl").write_text('{"prompt": "a\\nb"}\n')
        assert read_prompts(tmp_path / "p.jsonl") == ("a\nb",)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("p.txt", "\n", "p.txt: holds no prompts; write one a line"),
            ("p.txt", "a\nb\na\n", "the prompt 'a' stands there twice"),
            ("p.jsonl", '{"text": "a"}', r"p.jsonl: prompt 1: is no object \{\"prompt\": text"),
            ("p.jsonl", "a", "p.jsonl: prompt 1: is not JSON"),
        ],
    )
    def test_no_prompts(self, tmp_path: Path, name: str, text: str, message: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=message):
            read_prompts(tmp_path / name)


class TestCheckpoints:
    def test_a_folder_a_run_and_all_runs(self, outputs: Path) -> None:
        one = outputs / "seed_1" / "checkpoint-10"
        assert find_checkpoints([str(one)]) == (Saved("seed_1", 10, one),)
        assert [saved.step for saved in find_checkpoints([str(outputs / "seed_1")])] == [5, 10]
        both = find_checkpoints([str(outputs), str(one)])
        assert [(saved.run, saved.step) for saved in both] == [
            ("seed_0", 5),
            ("seed_0", 10),
            ("seed_1", 5),
            ("seed_1", 10),
        ]

    def test_what_lies_beside_says_the_step(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(InputError, match="nothing says at which step it was saved; write RUN:"):
            find_checkpoints([str(tmp_path)])
        (tmp_path / "trainer_state.json").write_text('{"global_step": 70}')
        assert find_checkpoints([str(tmp_path)])[0].step == 70
        log = RunLog.from_arrays(["seed_7"], [0, 90], {"loss": [[1, 2]]})
        log.write(tmp_path / "log.parquet")
        assert find_checkpoints([str(tmp_path)]) == (Saved("seed_7", 90, tmp_path),)
        assert find_checkpoints([f"b:3={tmp_path}"]) == (Saved("b", 3, tmp_path),)

    def test_what_is_none(self, outputs: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no checkpoint is given"):
            find_checkpoints([])
        with pytest.raises(InputError, match="--checkpoints nowhere: there is no such folder"):
            find_checkpoints(["nowhere"])
        with pytest.raises(InputError, match=r"holds no model \(config.json\), nor do its folders"):
            find_checkpoints([str(tmp_path)])
        with pytest.raises(InputError, match="holds no model"):
            find_checkpoints([f"b:3={tmp_path}"])
        same = f"seed_0:5={outputs / 'seed_1' / 'checkpoint-5'}"
        with pytest.raises(InputError, match="are both run 'seed_0' at step 5; name them apart"):
            find_checkpoints([str(outputs), same])

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            (" :5", "the run has no name; write RUN:STEP=FOLDER"),
            ("a:9007199254740993", "step 9007199254740993 is too large; at most"),
            ("\udcff:5", "the run .* holds half of a character"),
        ],
    )
    def test_keys_that_no_file_of_answers_holds(
        self, outputs: Path, key: str, message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            find_checkpoints([f"{key}={outputs / 'seed_1' / 'checkpoint-5'}"])
