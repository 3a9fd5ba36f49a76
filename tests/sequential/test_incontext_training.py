"""In-context probes: the stacked models against their own forward, alone and resumed."""

import json

import numpy as np
import pytest
import torch

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.incontext import probes
from gmb_hf.protocol.incontext.probes import (
    InContextFolder,
    PromptSettings,
    Questions,
    Stream,
    question_sets,
    train_group,
)
from gmb_hf.protocol.incontext.report import icl_report, sentences
from gmb_hf.tasks.incontext import REAL
from gmb_hf.training.variants import parse_variant

VARIANTS = ("dense", "banded-8", "sort-4", "blend-4", "hebbian-4")


def config(rule, *changes):
    return probes.preset("smoke", rule).changed([*changes])


def trained(stream, steps):
    for _ in range(steps):
        losses, logits = stream.losses(keep_logits=stream.looks)
        if stream.looks:
            stream.widen(logits)
        stream.update(losses)
    return stream


@pytest.mark.parametrize(
    ("rule", "variant"),
    [*(("linear", name) for name in VARIANTS), ("copy_rule", "dense"), (REAL, "blend-4")],
)
def test_stacked_models_answer_as_their_own_forward(rule, variant):
    stream = trained(Stream(config(rule), parse_variant(variant), [3, 1]), 2)
    questions = next(iter(question_sets(stream.config.prompt, 20).values()))
    losses, right = questions.outcomes(stream.model.weights, stream.shape)
    own, own_right = questions.model_outcomes(stream.model.member(1).eval())
    assert losses.shape == (2, 20, 5)
    assert np.allclose(losses[1], own[0], atol=1e-5)
    assert (right is None) == (rule == REAL)
    if right is not None:
        assert np.array_equal(right[1], own_right[0])


def test_a_seed_gives_the_same_numbers_in_any_company():
    first, second = (
        trained(
            Stream(config("linear", "training.first_values=2"), parse_variant("dense"), seeds), 6
        )
        for seeds in ([3, 1], [1])
    )
    for name, weight in first.model.weights.items():
        assert torch.equal(weight[1], second.model.weights[name][0]), name
    assert first.values[1] == second.values[0]


def test_the_loss_is_at_the_y_alone():
    stream = Stream(config("linear"), parse_variant("dense"), [0])
    losses = stream.losses()[0].detach()
    rows = torch.from_numpy(stream.drawn[0])
    logits = stream.model.member(0).eval()(rows[:, :-1]).logits[:, 1::2]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 2::2].flatten())
    assert float(losses[0]) == pytest.approx(float(expected), abs=1e-5)


def test_values_are_added_to_the_seeds_that_answer(monkeypatch):
    stream = Stream(config("linear", "training.first_values=2"), parse_variant("dense"), [0, 1])
    stream.losses()
    monkeypatch.setattr(stream, "batch_accuracy", lambda logits: np.array([1.0, 0.5]))
    for _ in range(8):
        stream.widen(torch.empty(0))
    assert stream.values.tolist() == [3, 2]
    assert (stream.drawn[0][:, 1::2] < 2).all()
    tensors = stream.state()
    again = Stream(stream.config, stream.variant, [0, 1])
    again.load_state(tensors, stream.rows)
    assert again.values.tolist() == [3, 2]


@pytest.mark.parametrize("first", ["none", "20"])
def test_all_values_at_once(first):
    changes = ("training.different=1", f"training.first_values={first}", "prompt.prime=13")
    stream = Stream(config("linear", *changes), parse_variant("dense"), [0])
    assert stream.values.tolist() == [13]
    trained(stream, 2)
    assert stream.drawn[0][:, 1::2].max() == 12


def test_batches_that_answer_nothing_have_no_accuracy():
    changes = ("training.different=1", "prompt.prime=13")
    stream = Stream(config("affine_table", *changes), parse_variant("dense"), [0])
    _, logits = stream.losses(keep_logits=True)
    assert np.isnan(stream.batch_accuracy(logits)).all()
    stream.widen(logits)
    assert not np.isnan(stream.state()["icl.lately"].numpy()).any()


def test_fewer_examples_than_dimensions_answer_no_question(tmp_path):
    folder, design = InContextFolder(tmp_path), config(REAL, "prompt.examples=1")
    folder.claim(design)
    stream = trained(Stream(design, parse_variant("dense"), [0]), 1)
    stream.measure(*stream.losses())
    folder.write(stream)
    said = sentences(icl_report([tmp_path], tmp_path, figures=False).summary)
    assert " above Bayes; no examples answer a question, on functions held out" in said[0]


def test_scores_by_hand():
    prompt = PromptSettings(rule="linear", prime=5, examples=2)
    questions = Questions(prompt, None, 2, 0)
    # Row 0 repeats its x at once; row 1 has three different ones.
    questions.first = np.array([[0, 0, 2], [0, 1, 2]])
    questions.repeated = np.array([[False, True, False], [False, False, False]])
    questions.certain = np.array([[False, True, False], [False, False, True]])
    questions.bayes_loss = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    losses = np.array([[[2.0, 0.5, 2.0], [2.0, 2.0, 1.5]]])
    right = np.array([[[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]])
    scores = {name: value.tolist() for name, value in questions.scores(losses, right).items()}
    assert scores["few_shot_accuracy"] == [0.5]
    assert scores["few_shot_loss"] == [1.0]
    assert scores["induction_score"] == [-1.5]
    assert scores["excess_loss"] == pytest.approx([10 / 6 - 4 / 6])
    curves = {(one["x"], one["k"]): one for one in questions.curves(losses, right)}
    assert curves["any", 1]["accuracy"] == [1.0]
    assert curves["new", 1]["questions"] == 1
    assert curves["any", 0]["bayes_accuracy"] == pytest.approx(0.2)


def test_an_interrupted_group_ends_where_an_uninterrupted_one_does(tmp_path, monkeypatch):
    design = config("linear", "training.first_values=3")
    folders = [InContextFolder(tmp_path / name) for name in ("whole", "stopped")]
    for folder in folders:
        folder.claim(design)
    dense, quiet = parse_variant("dense"), {"save_models": False, "tell": lambda *about: None}
    train_group(design, dense, [0, 1], folders[0], **quiet)
    monkeypatch.setattr(probes, "SAVE_EVERY_SECONDS", -1.0)
    steps = iter(range(5))

    def stop(method, *about):
        if method == "advanced" and next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_group(design, dense, [0, 1], folders[1], save_models=False, tell=stop)
    assert folders[1].pending_groups(design, dense, [0, 1, 2]) == [(0, 1), (2,)]
    train_group(design, dense, [0, 1], folders[1], **quiet)
    texts = [next((one.path / "results").glob("*.json")).read_text() for one in folders]
    assert texts[0] == texts[1]
    logs = [one.logs("dense") for one in folders]
    assert logs[0].fingerprint() == logs[1].fingerprint()


def test_seeds_that_diverge_are_named_and_have_no_numbers(tmp_path):
    folder, design = InContextFolder(tmp_path), config("linear")
    folder.claim(design)
    stream = trained(Stream(design, parse_variant("dense"), [4, 2]), 1)
    stream.measure(*stream.losses(keep_logits=True))
    with torch.no_grad():
        stream.model.weights["lm_head.weight"][0] = torch.nan
    folder.write(stream)
    made = icl_report([tmp_path], tmp_path, figures=False)
    assert made.summary.variants["dense"].seeds == (2,)
    assert "seeds 4 diverged" in " ".join(made.summary.notes)
    held = json.loads(next((tmp_path / "results").glob("*.json")).read_text())
    held["seeds"], held["diverged"] = [], [2, 4]
    next((tmp_path / "results").glob("*.json")).write_text(json.dumps(held))
    with pytest.raises(InputError, match="every seed has diverged; take a smaller learning rate"):
        icl_report([tmp_path], tmp_path, figures=False)
