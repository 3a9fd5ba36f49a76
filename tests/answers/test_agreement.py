"""Self-consistency: by hand, from a file of answers, and in the training of a language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from answers_builders import answer
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from gmb_hf.base.errors import InputError
from gmb_hf.indicators.catalogue import compute
from gmb_hf.protocol.answers.files import NAME, ModelAnswer, consistency
from gmb_hf.protocol.language.config import (
    ConsistencySettings,
    LanguageConfig,
    LanguageTraining,
    language_preset,
)
from gmb_hf.protocol.language.train import kept_path, self_consistency, train
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.text import TextFile, disagreement
from gmb_hf.training.launch import make_accelerator

SMOKE = language_preset("smoke")
MEASURED = SMOKE.replace(
    consistency=ConsistencySettings(prompts=3, prompt_tokens=12, samples=4, new_tokens=2),
    training=SMOKE.training.replace(keep_every=4),
)


def test_by_hand() -> None:
    assert disagreement([["a", "a", "b"]]) == pytest.approx(1 / 3)
    assert disagreement([["a", "a"], ["a", "b"]]) == 0.25
    assert disagreement([[(1, 2), (1, 2)]]) == 0
    for bad in ([], [["a"]], [["a", "b"], ["a"]]):
        with pytest.raises(InputError, match="at least 2 samples"):
            disagreement(bad)
    with pytest.raises(InputError, match="equally many samples of every prompt, got 2 to 3"):
        disagreement([["a", "b"], ["a", "b", "c"]])


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=4, max_size=4), min_size=1))
def test_it_is_a_share(samples: list[list[str]]) -> None:
    found = disagreement(samples)
    assert 0 <= found <= 1 - 1 / 4
    assert found == pytest.approx(disagreement([row[::-1] for row in samples[::-1]]))
    assert (found == 0) == all(len(set(row)) == 1 for row in samples)


def said(*texts: str, run: str = "a", step: int = 0, prompt: str = "p") -> list[ModelAnswer]:
    return [answer(run, step, prompt, place, text) for place, text in enumerate(texts)]


class TestFromAnswers:
    def test_the_mean_over_prompts(self) -> None:
        found = consistency([*said("x", "x", "y", "x"), *said("x", "y", "z", "u", prompt="q")])
        (row,) = found.rows
        assert (row.score, row.answers) == (0.5, 8)
        assert found.name == "self_consistency_disagreement"
        assert found.made_by.startswith("disagreement of 4 samples, answers; gmb-hf ")

    def test_what_counts_as_the_same(self) -> None:
        answers = said("A cat  sat", " a cat sat\n", "a cat ran")
        for settings, expected in (
            ({}, 2 / 3),
            ({"any_case": True}, 1 / 3),
            ({"first_words": 2, "any_case": True}, 0),
        ):
            found = consistency(answers, **settings)
            assert found.rows[0].score == pytest.approx(expected)
        assert "first 2 words, in any case" in found.made_by
        with pytest.raises(InputError, match="--first-words must be a whole number of at least 1"):
            consistency(said("x", "y"), first_words=0)

    def test_samples_that_do_not_compare(self) -> None:
        with pytest.raises(InputError, match=r"step 5: 2 samples of a prompt, where run 'a' has 3"):
            consistency([*said("x", "y", "z"), *said("x", "y", step=5)])
        with pytest.raises(InputError, match="one sample of each prompt agrees with itself"):
            consistency(said("x"))
        with pytest.raises(InputError, match="no answer to the prompt 'q'"):
            consistency([*said("x", "y"), *said("x", "y", step=5, prompt="q")])


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> TextFile:
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text("\n<|endoftext|>\n".join(f"the cat {n} sat on the mat." for n in range(99)))
    return TextFile("story", path)


class TestInTraining:
    def trained(self, out: Path, story: TextFile, config: LanguageConfig) -> RunLog:
        train(config, (3,), out, texts=[story], accelerator=make_accelerator(cpu=True))
        return RunLog.read(out / "logs")

    def test_it_is_one_more_column_and_nothing_else_changes(
        self, story: TextFile, tmp_path: Path
    ) -> None:
        plain = self.trained(tmp_path / "plain", story, SMOKE)
        measured = self.trained(tmp_path / "measured", story, MEASURED)
        assert set(measured.observables) - set(plain.observables) == {
            "self_consistency_disagreement"
        }
        for name in plain.observables:
            np.testing.assert_array_equal(measured.panel(name).values, plain.panel(name).values)
        found = measured.panel("self_consistency_disagreement").values
        assert found.shape == (1, 3)
        assert (found <= 0.75).all()
        assert found[0, 0] > 0.5
        score = compute(measured, "self_consistency_disagreement").values
        np.testing.assert_array_equal(score, -found)

    def test_prompt_by_prompt_and_of_a_model_that_has_diverged(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch.manual_seed(0)
        shape = GPT2Config(
            vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=1, initializer_range=0.9
        )
        model = GPT2LMHeadModel(shape)
        settings = ConsistencySettings(prompts=8, prompt_tokens=4, samples=2, new_tokens=2)
        stream = np.arange(100) % 20
        accelerator = make_accelerator(cpu=True)
        together = self_consistency(model, stream, settings, accelerator)[NAME]
        assert 0 < together < 0.5
        monkeypatch.setattr("gmb_hf.protocol.language.train._ROWS", 1)
        assert self_consistency(model, stream, settings, accelerator)[NAME] == together
        with torch.no_grad():
            model.lm_head.weight.mul_(torch.nan)
        assert np.isnan(self_consistency(model, stream, settings, accelerator)[NAME])

    def test_models_on_the_way_are_kept(self, story: TextFile, tmp_path: Path) -> None:
        from gmb_hf.protocol.answers.models import find_checkpoints

        self.trained(tmp_path, story, MEASURED)
        found = find_checkpoints([str(tmp_path / "kept")])
        assert [(saved.run, saved.step) for saved in found] == [
            ("seed_3", step) for step in (0, 4, 8)
        ]
        last = kept_path(tmp_path, 3, 8) / "model.safetensors"
        finished = tmp_path / "checkpoints" / "seed_3" / "model.safetensors"
        assert last.read_bytes() == finished.read_bytes()

    def test_who_uses_neither_has_the_config_of_before(self) -> None:
        identity = SMOKE.identity()
        assert set(identity) == {"text", "model", "training"}
        assert "keep_every" not in identity["training"]
        asked = MEASURED.identity()
        assert asked["consistency"]["samples"] == 4
        assert asked["training"]["keep_every"] == 4

    def test_settings_that_cannot_be(self) -> None:
        with pytest.raises(InputError, match=r"consistency: samples must be at least 2"):
            ConsistencySettings.of(samples=1)
        with pytest.raises(
            InputError, match=r"consistency: new_tokens must be greater than or equal to 1"
        ):
            ConsistencySettings.of(new_tokens=0)
        with pytest.raises(InputError, match=r"consistency: temperature must be greater than 0"):
            ConsistencySettings.of(temperature=0)
        with pytest.raises(InputError, match=r"34 tokens of a prompt .* more than text.block=32"):
            SMOKE.changed(["consistency.prompts=2", "consistency.prompt_tokens=30"])
        with pytest.raises(InputError, match=r"keep_every=3 is no multiple of checkpoint_every=4"):
            LanguageTraining.of(steps=8, checkpoint_every=4, keep_every=3)
        with pytest.raises(InputError, match=r"steps=12 is no multiple of keep_every=8"):
            LanguageTraining.of(steps=12, checkpoint_every=4, keep_every=8)
