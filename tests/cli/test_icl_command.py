"""`gmb icl` as a user types it."""

import json
import re

import pytest
import yaml
from command_line import gmb, refused

RUN = ("icl", "run", "--preset=smoke", "--set=prompt.asked_at_end=32")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two variants, and what the command said."""
    out = tmp_path_factory.mktemp("icl") / "run"
    done = gmb(*RUN, "--variants=dense,blend-2", "--seeds=0:3", "--jobs=1", f"--out={out}")
    assert done.code == 0, done
    return out, done


def test_a_run_leaves_everything_and_says_what_to_type_next(finished):
    out, done = finished
    for name in (
        *("incontext.yaml", "incontext.json", "report.md", "report.html"),
        *("tables/by_examples.csv", "tables/comparison.md", "figures/accuracy.png"),
    ):
        assert (out / name).is_file(), name
    assert not any((out / "state").rglob("*.safetensors"))
    summary = json.loads((out / "incontext.json").read_text())
    assert list(summary["variants"]) == ["dense", "blend-2"]
    assert summary["functions"] == ["held out", "trained", "all"]
    first = summary["variants"]["dense"]["points"][0]
    assert first["bayes_accuracy"] == pytest.approx(1 / 11)
    assert len(first["accuracy"]["values"]) == 3
    quantities = {one["quantity"] for one in summary["differences"]}
    assert {"few_shot_accuracy", "induction_score", "accuracy_k2"} <= quantities
    held = yaml.safe_load((out / "incontext.yaml").read_text())
    assert held["design"]["prompt"]["rule"] == "linear"
    assert "functions held out from training (3 seeds)" in " ".join(done.out.split())
    assert "![After k examples" in (out / "report.md").read_text()


def test_the_next_command_gives_the_numbers_of_the_run(finished):
    out, done = finished
    answer = out.parent / "evaluation.json"
    evaluated = gmb(*done.next_command.split()[1:], f"--out={answer}")
    assert evaluated.code == 0, evaluated
    found = json.loads(answer.read_text())["points"]
    points = json.loads((out / "incontext.json").read_text())["variants"]["dense"]["points"]
    for one, point in zip(found, points, strict=True):
        assert (one["functions"], one["x"], one["k"]) == (
            point["functions"],
            point["x"],
            point["k"],
        )
        assert one["loss"][0] == pytest.approx(point["loss"]["values"][0], abs=1e-5)
    assert evaluated.next_command == f"gmb icl report {out}"


def test_a_report_shows_the_examples_asked_for(finished, tmp_path):
    out, _ = finished
    done = gmb("icl", "report", str(out), f"--out={tmp_path}", "--k=0,2", "--no-figures")
    assert done.code == 0, done
    head = (tmp_path / "tables" / "by_examples.csv").read_text().splitlines()[0]
    assert head == "variant,functions,x,k=0,k=2"
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule=linea"], "rule 'linea' is unknown.* Did you mean 'linear'?"),
        (["--prime=12"], "linear: prime must be a prime number, got 12; 11 is one"),
        (["--rule=affine_table", "--prime=5"], "only 3,125 maps of 5 residues"),
        (["--rule=linear_real", "--prime=11"], "prompt: prime is not for linear_real"),
        (["--dimension=3"], "prompt: dimension is not for linear; leave it out"),
        (
            ["--k=20", "--block=19"],
            "k = 20 examples and a question take 43 tokens, the model's block "
            r"\(prompt.block\) has 19; ask for at most k = 8",
        ),
        (["--rule=copy_rule", "--k=30"], "need 16 different x and there are 11"),
        (["--rule=linear_real", "--variants=hebbian-4"], "pulls the embeddings of tokens together"),
        (["--variants=sort-90"], "variant 'sort-90': .*sort_window"),
        (["--steps=7"], "training: steps=7 is no multiple"),
        (["--set=model.sort_window=2"], "sort-2 is a variant; name it in --variants"),
        (["--set=training.stop_after=5"], "training.stop_after: in-context probes do without"),
        (
            ["--rule=copy_rule", "--set=training.first_values=4"],
            "training.first_values is not for copy_rule; leave it out",
        ),
        (
            ["--rule=linear_real", "--set=training.different=0.5"],
            "training.different is not for linear_real; leave it out",
        ),
        (["--rule=copy_rule", "--set=prompt.data_seed=-1"], "prompt.data_seed must be .* got -1"),
        (["--set=prompt.held_out=1"], "prompt.held_out must be less than 1"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(tmp_path, arguments, message):
    out = tmp_path / "out"
    said = refused(*RUN, f"--out={out}", *arguments)
    assert re.search(message.replace("?", r"\?"), said), said
    assert not out.exists()


def test_more_examples_than_the_block_has_room_for_are_refused(finished):
    out, _ = finished
    model = out / "models" / "dense" / "seed_0"
    said = refused("icl", "eval", str(model), "--k=9")
    assert "k = 9 examples and a question take 21 tokens, the model's block" in said
    assert "ask for at most k = 4" in said
    said = refused("icl", "report", str(out), "--k=0,9")
    assert "prompts of 4 examples" in said


def test_reports_refuse_what_is_no_run(finished, tmp_path):
    out, _ = finished
    assert "no such file; name the folder of a run" in refused("icl", "report", str(tmp_path))
    assert "the folder is named twice" in refused(
        "icl", "report", str(out), str(out), f"--out={tmp_path}"
    )
    assert "variant 'dens' is unknown" in refused("icl", "report", str(out), "--baseline=dens")
    assert "lies in no run of gmb icl" in refused("icl", "eval", str(tmp_path))
    said = refused(*RUN, "--seeds=0:3", f"--out={out}", "--k=3")
    assert "design.prompt.block" in said or "design.prompt.examples" in said


def test_datasets_are_built_and_verified(tmp_path):
    built = gmb(
        "data", "build", "icl", "--task=linear_p5_k3", "--task=linear_real", f"--out={tmp_path}"
    )
    assert built.code == 0, built
    verified = gmb(*built.next_command.split()[1:])
    assert verified.code == 0, verified
    assert "linear_real_d5_k10" in verified.out
    said = refused("data", "build", "formal", "--task=linear_p5", f"--out={tmp_path / 'b'}")
    assert "is built by `gmb data build icl`" in said
