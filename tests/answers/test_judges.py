"""Judges: against transformers' own numbers, one by one and in batches, and what they refuse."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answers_builders import (
    save,
    save_causal,
    save_causal_classifier,
    save_classifier,
    save_spaced,
    word_tokenizer,
)
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    RobertaConfig,
    RobertaForSequenceClassification,
    pipeline,
)

from gmb_hf.base.errors import InputError
from gmb_hf.base.pretrained import find_model
from gmb_hf.protocol.answers.judges import Asking, Judge, load_judge

PAIRS = [
    ("the ", "cat sat ."),
    ("the ", "dog ran on the mat ."),
    ("in the sun ", "a"),
    ("the ", "bird"),
    ("", "cat sat"),
    ("the ", "dog sat on the mat"),
]


def judge(place: Path, **asking: Any) -> Judge:
    return load_judge(find_model(str(place)), Asking(**asking), device="cpu")


def scores(found: Judge, pairs: list[tuple[str, str]] = PAIRS, batch: int = 4) -> np.ndarray:
    values = np.full(len(pairs), -math.inf)
    for places, part in found.rated(pairs, batch):
        assert len(places) <= batch
        values[places] = part
    return values


@pytest.fixture
def copied(causal: Path, tmp_path: Path) -> Path:
    return shutil.copytree(causal, tmp_path / "copy")


@pytest.mark.parametrize(
    "asking", [{"how": "likelihood"}, {"how": "yes-no", "template": "{prompt}{answer}?"}]
)
def test_in_batches_as_one_by_one(causal: Path, asking: dict[str, str]) -> None:
    found = judge(causal, **asking)
    alone = np.array([scores(found, [pair])[0] for pair in PAIRS])
    for batch in (1, 2, 64):
        np.testing.assert_allclose(scores(found, batch=batch), alone, rtol=1e-6)


def test_a_label_is_what_the_pipeline_says(classifier: Path) -> None:
    found = judge(classifier, label="good")
    model = AutoModelForSequenceClassification.from_pretrained(classifier)
    words = AutoTokenizer.from_pretrained(classifier)
    ask = pipeline("text-classification", model=model, tokenizer=words, top_k=None, device="cpu")
    for (prompt, answer), score in zip(PAIRS, scores(found), strict=True):
        said = {entry["label"]: entry["score"] for entry in ask([prompt + answer])[0]}
        assert score == pytest.approx(said["good"], rel=1e-5)
    other = scores(judge(classifier, label="bad"))
    np.testing.assert_allclose(scores(found) + other, 1, rtol=1e-12)
    np.testing.assert_allclose(scores(found, batch=1), scores(found, batch=64), rtol=1e-6)


def test_a_likelihood_is_the_loss_of_the_answer(causal: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(causal)
    found = scores(judge(causal, how="likelihood"))
    for (prompt, answer), score in zip(PAIRS, found, strict=True):
        before = [1, *(byte + 3 for byte in prompt.encode())]
        ids = [*before, *(byte + 3 for byte in answer.encode())]
        labels = [-100] * len(before) + ids[len(before) :]
        loss = model(torch.tensor([ids]), labels=torch.tensor([labels])).loss
        assert score == pytest.approx(-loss.item(), rel=1e-5)


def test_an_answer_has_the_tokens_that_it_has_after_its_prompt(tmp_path: Path) -> None:
    """Alone, this tokenizer puts a space more before it."""
    place = save_spaced(tmp_path)
    words = AutoTokenizer.from_pretrained(place)
    logs = AutoModelForCausalLM.from_pretrained(place)
    assert len(words(" sat").input_ids) == 2
    for prompt, answer, together in (
        ("the cat", " sat on", words("the cat sat on").input_ids),
        # "cat" is one word, and none of the prompt's tokens is a part of it.
        ("the c", "at sat", words("the c").input_ids + words("at sat").input_ids),
    ):
        ids = torch.tensor([[1, *together]])
        chances = logs(ids).logits.log_softmax(-1)[0]
        first = 1 + len(words(prompt).input_ids)
        each = [chances[at - 1, ids[0, at]].item() for at in range(first, ids.shape[1])]
        found = scores(judge(place, how="likelihood"), [(prompt, answer)])
        assert found[0] == pytest.approx(np.mean(each), rel=1e-5)
    found = scores(judge(place, how="yes-no", template="{answer} good"), [("", "a cat")])
    chances = logs(torch.tensor([[1, *words("a cat good").input_ids]])).logits[0, -1].exp()
    yes, no = (chances[words.convert_tokens_to_ids(f"▁{word}")].item() for word in ("yes", "no"))
    assert found[0] == pytest.approx(yes / (yes + no), rel=1e-5)


def test_words_that_a_judge_cannot_tell_apart(tmp_path: Path) -> None:
    place = save_spaced(tmp_path)
    found = judge(place, how="yes-no", template="{answer}", yes=" Ü", no=" Ä")
    with pytest.raises(InputError, match="the words ' Ü' and ' Ä' are the same to it; choose oth"):
        scores(found)


def test_the_weights_wait_until_the_judge_is_asked(copied: Path, classifier: Path) -> None:
    (copied / "model.safetensors").write_bytes(b"no weights")
    found = judge(copied, how="likelihood")
    assert found.about["how"] == "likelihood"
    with pytest.raises(InputError, match="could not be loaded: "):
        scores(found)
    assert judge(classifier, label="good").about["label"] == "good"


def test_an_empty_answer_has_no_likelihood(causal: Path) -> None:
    found = scores(judge(causal, how="likelihood"), [("the ", ""), ("the ", "cat")])
    assert math.isnan(found[0])
    assert math.isfinite(found[1])
    assert math.isfinite(scores(judge(causal, how="yes-no", template="{answer}?"), [("", "")])[0])


def test_yes_and_no_exclude_each_other(causal: Path) -> None:
    template = "{prompt}{answer} {{ok}}?"
    yes = judge(causal, how="yes-no", template=template, yes=" good", no=" no")
    no = judge(causal, how="yes-no", template=template, yes=" no", no=" good")
    np.testing.assert_allclose(scores(yes) + scores(no), 1, rtol=1e-6)
    likely = judge(causal, how="likelihood")
    texts = [template.format(prompt=prompt, answer=answer) for prompt, answer in PAIRS]
    asked = [(text, word) for text in texts for word in (" good", " no")]
    sums = scores(likely, asked).reshape(-1, 2) * [5, 3]
    odds = np.exp(sums[:, 0] - sums[:, 1])
    np.testing.assert_allclose(scores(yes), odds / (1 + odds), rtol=1e-5)


def test_one_output_is_the_score_itself(tmp_path: Path) -> None:
    place = save_causal_classifier(tmp_path)
    found = judge(place)
    model = AutoModelForSequenceClassification.from_pretrained(place)
    words = AutoTokenizer.from_pretrained(place)
    pairs = [*PAIRS, ("the ", "cat</s>")]  # the token that ends a text, as text
    for (prompt, answer), score in zip(pairs[:-1], scores(found, pairs), strict=False):
        logits = model(**words(prompt + answer, return_tensors="pt")).logits
        assert score == pytest.approx(logits.item(), rel=1e-4)
    assert found.about["label"] == "LABEL_0"


def test_labels_that_do_not_exclude_each_other(tmp_path: Path) -> None:
    place = save_classifier(tmp_path, ("true", "kind"), problem_type="multi_label_classification")
    both = scores(judge(place, label="true")) + scores(judge(place, label="kind"))
    assert not np.allclose(both, 1)


def test_no_label_is_guessed(classifier: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"several labels \(bad, good\); say whose .* --label good"
    ):
        judge(classifier)
    unnamed = save_classifier(tmp_path, ("LABEL_0", "LABEL_1"))
    with pytest.raises(InputError, match=r"its labels have no names \(LABEL_0, LABEL_1\); say who"):
        judge(unnamed)
    assert scores(judge(unnamed, label="LABEL_1")).shape == (6,)
    with pytest.raises(InputError, match=r"label 'god' is unknown; known: bad, good. Did you mean"):
        judge(classifier, label="god")


def test_the_way_must_fit_the_model(causal: Path, classifier: Path) -> None:
    with pytest.raises(InputError, match="is a causal language model; say how it judges: --how li"):
        judge(causal)
    with pytest.raises(InputError, match="is a GPT2LMHeadModel, no text classifier"):
        judge(causal, how="label")
    with pytest.raises(InputError, match="is a BertForSequenceClassification, no causal language"):
        judge(classifier, how="yes-no")


@pytest.mark.parametrize(
    ("asking", "message"),
    [
        ({"how": "best"}, "--how: way 'best' is unknown; known: label, likelihood, yes-no"),
        ({"how": "likelihood", "label": "x"}, "--label is for --how label, not likelihood"),
        ({"how": "likelihood", "template": "{answer}"}, "--template: the likelihood is that of"),
        ({"template": "{prompt}"}, "--template: must have {answer} in it"),
        ({"template": "{answer} {x}"}, "--template: must have .* nothing else in braces"),
        ({"template": "{answer} {"}, "--template: .*; a brace as such is written twice"),
        ({"template": "{answer.__class__}"}, "--template: must have {answer} in it"),
        ({"how": "yes-no", "yes": "a", "no": "a"}, "--yes and --no: two different words"),
    ],
)
def test_what_cannot_be_asked(asking: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Asking(**asking)


def test_nothing_is_cut_off(causal: Path, classifier: Path) -> None:
    long = [("the ", "cat " * 40)]
    with pytest.raises(
        InputError, match="takes 48 tokens, and with the prompt 'the ' there are 165"
    ):
        scores(judge(causal, how="likelihood"), long)
    with pytest.raises(
        InputError, match=r"takes 48 tokens.* there are 50; .*: shorten the answers"
    ):
        scores(judge(classifier, label="good"), [("the ", "cat " * 47)])


def test_places_that_are_counted_from_the_padding_on(tmp_path: Path) -> None:
    words = word_tokenizer()
    words.model_max_length = 10**30
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    shape |= {"intermediate_size": 8, "max_position_embeddings": 16, "num_labels": 1}
    config = RobertaConfig(vocab_size=len(words), pad_token_id=1, **shape)
    found = judge(save(tmp_path, RobertaForSequenceClassification(config), words))
    assert scores(found, [("cat " * 12, "")]).shape == (1,)  # with both ends, 14
    with pytest.raises(InputError, match=r"takes 14 tokens, and with the prompt .* there are 15"):
        scores(found, [("cat " * 13, "")])


def test_the_identity_is_that_of_the_content(causal: Path, copied: Path, tmp_path: Path) -> None:
    identity = find_model(str(causal)).identity
    assert identity.startswith("sha256:")
    assert find_model(str(copied)).identity == identity
    (copied / "optimizer.pt").write_bytes(b"no part of the model")
    assert find_model(str(copied)).identity == identity
    assert find_model(str(save_causal(tmp_path / "other", seed=1))).identity != identity


def test_weights_that_are_missing_are_not_drawn_at_random(copied: Path) -> None:
    path = copied / "model.safetensors"
    kept = {name: value for name, value in load_file(path).items() if "ln_f" not in name}
    save_file(kept, path, metadata={"format": "pt"})
    with pytest.raises(
        InputError, match=r"2 of its weights are missing .*ln_f.*; it is no whole ca"
    ):
        scores(judge(copied, how="likelihood"))


def test_a_base_model_is_no_judge(causal: Path, copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "architectures": None}))
    with pytest.raises(InputError, match=r"1 of its weights are missing or .* score.weight; it is"):
        scores(judge(copied, label="LABEL_1"))


def test_numbers_that_are_none_are_refused(copied: Path) -> None:
    path = copied / "model.safetensors"
    spoiled = {name: value * math.nan for name, value in load_file(path).items()}
    save_file(spoiled, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match="gives nan; a judge must give finite numbers"):
        scores(judge(copied, how="likelihood"))


class TestSources:
    def test_pickles_are_not_loaded(self, copied: Path) -> None:
        (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
        with pytest.raises(
            InputError, match="holds no weights as safetensors, and pickles are not"
        ):
            find_model(str(copied))

    @pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
    def test_code_is_not_run_unless_asked(self, copied: Path, name: str) -> None:
        held = json.loads((copied / name).read_text())
        (copied / name).write_text(json.dumps({**held, "auto_map": {"AutoModel": "x.Model"}}))
        with pytest.raises(
            InputError, match=rf"brings code of its own \({name} has auto_map\).*gi"
        ):
            find_model(str(copied))
        assert find_model(str(copied), trust_remote_code=True).code

    def test_our_own_models_bring_code_that_is_known(self, tmp_path: Path) -> None:
        from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM

        config = GrokkingTransformerConfig.grokking(prime=5)
        GrokkingTransformerForCausalLM(config).save_pretrained(tmp_path)
        assert "auto_map" in json.loads((tmp_path / "config.json").read_text())
        assert not find_model(str(tmp_path), trust_remote_code=True).code
        with pytest.raises(InputError, match="holds no tokenizer; save it beside the model"):
            scores(judge(tmp_path, how="likelihood"))

    @pytest.mark.parametrize(
        ("place", "message"),
        [
            ("./nothing", "./nothing: there is no such folder"),
            ("a/b/c", "a/b/c: there is no such folder"),
            (" ", "there is no such folder"),
        ],
    )
    def test_no_such_place(self, place: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            find_model(place)

    def test_a_folder_without_a_model(self, tmp_path: Path, causal: Path) -> None:
        with pytest.raises(InputError, match=r"holds no model \(no config.json\); save_pretrained"):
            find_model(str(tmp_path))
        with pytest.raises(InputError, match=r"--revision main: .* is a folder, which has none"):
            find_model(str(causal), revision="main")
        (tmp_path / "config.json").write_text("{")
        with pytest.raises(InputError, match=r"config.json could not be read"):
            find_model(str(tmp_path))
