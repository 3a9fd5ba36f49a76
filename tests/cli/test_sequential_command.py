"""`gmb sequential run` and `eval` as a user types them."""

import json
import re
import shutil

import pytest
import yaml
from command_line import gmb, refused

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.protocol.sequential.matrix import read_matrix

SMALL = (
    "--prime=5",
    "--steps=10",
    "--set=model.width=8",
    "--set=model.mlp_width=8",
    "--set=training.checkpoint_every=5",
)
RUN = ("sequential", "run", "--suite=modular", *SMALL)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two variants, and what the command said."""
    out = tmp_path_factory.mktemp("sequential") / "run"
    done = gmb(*RUN, "--variants=dense,blend-2", "--seeds=0:3", f"--out={out}")
    assert done.code == 0, done
    return out, done


def test_a_run_leaves_everything_and_says_what_to_type_next(finished):
    out, done = finished
    for name in ("sequential.yaml", "matrix.csv", "retention.json", "tables/matrix_loss.md"):
        assert (out / name).is_file(), name
    assert set(read_matrix(out / "matrix.csv")) == {"dense", "blend-2"}
    assert not any((out / "state").rglob("*.safetensors"))
    said = " ".join(done.out.split())
    assert "p = 5 (protocol: 97)" in said  # quick says that it is smaller
    assert "100%" in done.err
    assert "protocol" in (out / "tables" / "matrix_loss.md").read_text()
    held = yaml.safe_load((out / "sequential.yaml").read_text())
    assert held["suite"] == "modular"
    assert held["design"]["suite"]["data_seed"] == 42
    assert len(held["hash"]) == 64
    assert set(held["fingerprints"]) == {"add", "sub", "mul", "sq_sum"}
    assert {"torch", "gmb_hf"} <= set(held["versions"])


def test_the_next_command_gives_the_numbers_of_the_matrix(finished):
    out, done = finished
    evaluated = gmb(*done.next_command.split()[1:], f"--out={out.parent / 'evaluation.json'}")
    assert evaluated.code == 0, evaluated
    assert "sequential.yaml says" in " ".join(evaluated.out.split())
    found = json.loads((out.parent / "evaluation.json").read_text())["tasks"]
    matrix = read_matrix(out / "matrix.csv")["dense"]
    assert [task["task"] for task in found] == list(matrix.tasks)
    assert [task["loss"] for task in found] == pytest.approx(matrix.loss[0, 4].tolist(), abs=1e-5)
    assert evaluated.next_command == f"gmb sequential report {out}"


def test_a_checkpoint_without_its_run_is_asked_as_the_options_say(finished, tmp_path):
    out, _ = finished
    alone, written = tmp_path / "alone", tmp_path / "evaluation.json"
    shutil.copytree(out / "models" / "blend-2" / "seed_1" / "phase_4", alone)
    command = ("sequential", "eval", f"--checkpoint={alone}", "--suite=modular")
    evaluated = gmb(*command, "--prime=5", f"--out={written}")
    matrix = read_matrix(out / "matrix.csv")["blend-2"]
    found = json.loads(written.read_text())["tasks"]
    assert [task["loss"] for task in found] == pytest.approx(matrix.loss[1, 4].tolist(), abs=1e-5)
    assert evaluated.next_command.endswith(" --suite modular --out evaluation.json")


def test_options_are_recorded_and_a_missing_tracker_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("gmb_hf.base.extras.find_spec", lambda name: None)
    done = gmb(
        *RUN,
        "--order=sub,add",
        "--op-token=shared",
        "--loss-positions=all",
        "--compat-batch",
        "--carry-optimizer",
        "--data-seed=7",
        "--set=phases.stop_loss=none",
        "--save-models=none",
        "--seeds=4",
        "--track=wandb",
        f"--out={tmp_path}",
    )
    assert done.code == 0, done
    said = " ".join(done.out.split())
    assert "dense has 1 of at least 3 seeds" in said
    assert said.count("--track wandb: wandb is not installed; training goes on without it") == 1
    assert "(pip install 'gmb-hf[wandb]')" in said
    design = yaml.safe_load((tmp_path / "sequential.yaml").read_text())["design"]
    assert design["suite"] == {
        "name": "modular",
        "order": ["sub", "add"],
        "prime": 5,
        "op_token": "shared",
        "loss_positions": "all",
        "train_fraction": 0.5,
        "data_seed": 7,
        "compat_batch": True,
    }
    assert design["phases"] == {
        "steps": [10, 10],
        "stop_loss": None,
        "stop_early": None,
        "carry_optimizer": True,
    }
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite=modula"], "suite 'modula' is unknown.* Did you mean 'modular'?"),
        (["--preset=quickk"], "preset 'quickk' is unknown.* Did you mean 'quick'?"),
        (["--variants=dense,sorted-4"], "kind 'sorted' is unknown.* Did you mean 'sort'?"),
        (["--variants=dense,sort-4,sort-4"], "sort-4 is given twice; give each variant once"),
        (["--variants=sort-9"], "variant 'sort-9': .*sort_window"),
        (["--variants=banded-1", "--set=model.mlp_width=64"], "variant 'banded-1': .*band"),
        (["--seeds=1,2,1"], "1 is given twice; give each seed once"),
        (["--steps=10,20"], "phases.steps names 2 phases, the suite has 4"),
        (["--steps=7"], "training: steps=7 is no multiple"),
        (["--order=add,sum"], "task 'sum' is unknown"),
        (["--stop-early=1", "--set=phases.stop_loss=none"], "say at which held-out loss"),
        (["--op-token=own"], "op_token 'own' is unknown; known: distinct, shared"),
        (["--save-models=lst"], "save-models 'lst' is unknown.* Did you mean 'last'?"),
        (["--track=tensorbord"], "tracker 'tensorbord' is unknown.* Did you mean 'tensorboard'?"),
        (["--device=gpu"], "device 'gpu' is unknown"),
        (["--set=training.lrr=1"], "Did you mean 'lr'?"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path, arguments, message):
    out = tmp_path / "out"
    said = refused(*RUN, "--seeds=0:2", f"--out={out}", *arguments)
    assert re.search(message.replace("?", r"\?"), said), said
    assert not out.exists()


def test_another_design_in_the_folder_is_refused(finished):
    out, _ = finished
    said = refused(*RUN, "--seeds=0:3", f"--out={out}", "--op-token=shared")
    assert "design.suite.op_token: 'distinct' -> 'shared'" in said


def test_eval_refuses_what_does_not_fit(finished, tmp_path):
    out, _ = finished
    checkpoint = out / "models" / "dense" / "seed_0" / "phase_4"
    command = ("sequential", "eval", f"--checkpoint={checkpoint}")
    assert "the model knows 12 tokens, the suite formal has 101" in refused(
        *command, "--suite=formal"
    )
    said = refused(*command, "--suite=modular", "--op-token=shared", "--prime=5")
    assert "p = 5, shared tokens has 9; name the suite that it was trained on" in said
    assert "holds no model" in refused(
        "sequential", "eval", f"--checkpoint={tmp_path}", "--suite=modular"
    )
    short = tmp_path / "short"
    shape = GrokkingTransformerConfig.formal(
        max_position_embeddings=8, hidden_size=8, num_hidden_layers=1
    )
    GrokkingTransformerForCausalLM(shape).save_pretrained(short)
    said = refused("sequential", "eval", f"--checkpoint={short}", "--suite=formal")
    assert "rows of parity_8 have 20 tokens, the model's block" in said
