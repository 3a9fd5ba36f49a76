"""`gmb benchmark`: lm-eval on a committed task, its results kept, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import gmb, refused

from gmb_hf.base import stats
from gmb_hf.hub.models import create_model
from gmb_hf.protocol.answers import standard

TASK = Path(__file__).resolve().parents[2] / "examples" / "benchmark" / "modular_p11.yaml"

try:  # sources of the tests' extra leave it out: it adds 130 MB to what CI installs
    import lm_eval  # noqa: F401
except ImportError:
    installed = False
else:
    installed = True
needs_it = pytest.mark.skipif(not installed, reason="lm-eval is not installed (gmb-hf[benchmarks])")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two untrained models of arithmetic modulo 11."""
    place = tmp_path_factory.mktemp("models")
    for seed in (0, 1):
        create_model("grokking", place / f"seed_{seed}", prime=11, seed=seed)
    return place


def test_the_committed_set_has_one_right_answer_each():
    rows = [json.loads(line) for line in TASK.with_suffix(".jsonl").read_text().splitlines()]
    assert len(rows) == len({row["question"] for row in rows}) == 48
    for row in rows:
        a, sign, b, _ = row["question"].split()
        right = (int(a) + int(b) if sign == "+" else int(a) - int(b)) % 11
        assert [int(one) for one in row["choices"]].index(right) == row["answer"]
        assert len(set(row["choices"])) == 4


@needs_it
def test_two_models_on_the_committed_set(models: Path, tmp_path: Path):
    words = ("benchmark", models / "seed_0", f"b={models}/seed_1", "--tasks", TASK)
    done = gmb(*words, "--out", tmp_path, figures=True)
    assert done.code == 0, done
    held = json.loads((tmp_path / "benchmark.json").read_text())
    scores = {(one["model"], one["metric"]): one for one in held["scores"]}
    assert set(scores) == {(name, f) for name in ("seed_0", "b") for f in ("acc", "acc_norm")}
    kept = [json.loads(path.read_text()) for path in (tmp_path / "samples").glob("*.json")]
    samples = {one["name"]: np.array(one["samples"]["modular_p11"]["acc,none"]) for one in kept}
    for name in ("seed_0", "b"):
        one = scores[name, "acc"]
        assert one["value"] == samples[name].mean() == pytest.approx(_by_hand(models, name))
        assert one["stderr"] == pytest.approx(samples[name].std(ddof=1) / math.sqrt(48))
        assert one["low"] == pytest.approx(max(0, one["value"] - 1.96 * one["stderr"]))
        assert one["samples"] == 48
    pair = next(one for one in held["comparisons"] if one["metric"] == "acc")
    gaps = samples["b"] - samples["seed_0"]
    assert (pair["model"], pair["baseline"]) == ("b", "seed_0")
    assert pair["difference"] == pytest.approx(gaps.mean())
    assert (pair["better"], pair["worse"]) == ((gaps > 0).sum(), (gaps < 0).sum())
    test = stats.mcnemar(samples["b"], samples["seed_0"])
    assert pair["p_value"] == pytest.approx(test.p_value, abs=0.02)
    assert held["versions"].keys() >= {"lm_eval", "torch", "transformers", "datasets", "gmb_hf"}
    assert held["tasks"]["modular_p11"]["version"] == "1.0"
    assert held["models"]["b"]["identity"].startswith("sha256:")
    for name in ("report.html", "tables/comparison.tex", "figures/benchmark.png"):
        assert (tmp_path / name).stat().st_size > 100
    assert "modular_p11" in done.out


def _by_hand(models: Path, name: str) -> float:
    """The accuracy by the model's own log-probabilities of the four answers."""
    import torch

    from gmb_hf.protocol.language.heldout import load_checkpoint

    place = models / {"seed_0": "seed_0", "b": "seed_1"}[name]
    model, tokenizer, _, _ = load_checkpoint(str(place))
    right = 0
    for line in TASK.with_suffix(".jsonl").read_text().splitlines():
        row = json.loads(line)
        ids = torch.tensor([tokenizer(row["question"])["input_ids"]])
        with torch.no_grad():
            last = model(input_ids=ids).logits[0, -1]
        answers = [tokenizer.get_vocab()[one] for one in row["choices"]]
        right += int(last[answers].argmax()) == row["answer"]
    return right / 48


@needs_it
def test_a_second_start_evaluates_nothing_again(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given: Any = ([str(models / "seed_0")], [str(TASK)], tmp_path)
    first = standard.evaluate_standard(*given, limit=4)
    assert first.tasks["modular_p11"]["samples"] == 4
    assert first.notes == ("only the first 4 samples of each task were asked (--limit)",)
    monkeypatch.setattr(standard, "_asked", lambda *_, **__: pytest.fail("asked again"))
    assert standard.evaluate_standard(*given, limit=4) == first
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        standard.evaluate_standard(*given, limit=5)


@needs_it
def test_what_is_refused(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import datasets

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach the Hub\nand a long trace")

    model, bare = models / "seed_0", tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(model / name, bare / name)
    nothing, other = tmp_path / "no.yaml", tmp_path / "list.yaml"
    nothing.write_text("task: [\n")
    other.write_text("dataset_path: json\n")
    strange = tmp_path / "strange.yaml"
    strange.write_text(TASK.read_text())
    rows = [{"question": "one + 1 =", "choices": ["2", "3"], "answer": 0}]
    (tmp_path / "modular_p11.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    for words, message in [
        ([bare, "--tasks", TASK], "bare: holds a model but no tokenizer; save it there too"),
        ([model, "--tasks", "lambada_openay"], "unknown; lm-eval knows"),
        ([model, "--tasks", "lambada_openay"], "Did you mean 'lambada_openai'?"),
        ([model, "--tasks", "lambada_openai"], "task lambada_openai: its data could not be read"),
        ([model, "--tasks", "lambada_openai"], "(Couldn't reach the Hub); without a network"),
        ([model, "--tasks", "x/none.yaml"], "none.yaml: there is no such file"),
        ([model, "--tasks", nothing], "no.yaml: cannot be read as YAML"),
        ([model, "--tasks", other], "list.yaml: is no task of lm-eval"),
        ([model, "--tasks", f"{TASK},{TASK}"], "is named twice"),
        ([model, "--tasks", ","], "--tasks: no task is given"),
        ([model, "--tasks", TASK, "--limit", 0], "--limit must be a whole number"),
        ([model, "--tasks", TASK, "--num-fewshot", -1], "--num-fewshot must be at least 0"),
        ([model, "--tasks", TASK, "--baseline", "seed_9"], "Did you mean 'seed_0'?"),
        ([model, model, "--tasks", TASK], "two are named 'seed_0'"),
        ([tmp_path / "none", "--tasks", TASK], "none: there is no such folder"),
    ]:
        assert message in refused("benchmark", *words, "--out", tmp_path / "out"), words
    monkeypatch.undo()
    line = refused("benchmark", model, "--tasks", strange, "--out", tmp_path / "out")
    assert "'one' is no word of this model" in line
    assert not (tmp_path / "out" / "benchmark.json").exists()


def test_without_the_library_the_extra_is_named(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setattr(standard.extras, "present", lambda _: False)
    line = refused("benchmark", models / "seed_0", "--tasks", TASK, "--out", tmp_path)
    assert "pip install 'gmb-hf[benchmarks]'" in line
    assert "lm-eval" in line


def held(values: list[float], aggregate: float) -> dict[str, Any]:
    """What is kept of a model on one task with one metric."""
    result = {"metric": "m", "filter": "none", "value": aggregate, "stderr": 0.1}
    return {
        "tasks": {"t": {"samples": len(values)}},
        "results": {"t": [{**result, "higher_is_better": True}]},
        "samples": {"t": {"m,none": values}},
    }


def test_only_means_over_samples_are_compared():
    found = {"a": held([0, 0, 1, 1], 0.5), "b": held([1, 1, 1, 1], 1.0)}
    scores = [one for name in found for one in standard._scores(name, found[name])]
    assert [(one.low, one.high) for one in scores] == [(0.304, 0.696), (0.804, 1.0)]
    (pair,), notes = standard._comparisons(found, scores, "a")
    assert not notes
    assert (pair.difference, pair.better, pair.worse) == (0.5, 2, 0)
    # gaps 1, 1, 0, 0: of the four choices of signs two are as far from 0
    assert pair.p_value == pair.p_adjusted == 0.5
    assert pair.stderr == pytest.approx(math.sqrt(1 / 3) / 2)
    found["b"] = held([1, 1, 1, 1], math.exp(1))
    scores = [one for name in found for one in standard._scores(name, found[name])]
    pairs, notes = standard._comparisons(found, scores, "a")
    assert not pairs
    assert notes == ["no paired test where a metric is no mean over samples: t m"]
