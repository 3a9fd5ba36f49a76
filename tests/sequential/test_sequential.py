"""Phase after phase: the same as a plain loop, resumed exactly, and independent of company."""

import contextlib
import functools
import io
import shutil

import numpy as np
import pytest
import torch
from sequential_builders import tiny, trained

from gmb_hf.base.errors import InputError
from gmb_hf.hub.models import read_described_model
from gmb_hf.protocol.sequential import run as sequential
from gmb_hf.protocol.sequential.matrix import read_matrix
from gmb_hf.protocol.sequential.train import Phases, evaluate_model, model_shape, task_rows
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.checkpoints import States, load_model
from gmb_hf.training.stacked import seeded_model
from gmb_hf.training.variants import parse_variant

VARIANTS = ("dense", "banded-8", "sort-3", "blend-3", "hebbian-2")


def plain_matrix(config, variant, seed):
    """The matrix of one seed [P + 1, K] by the model's own forward and torch's own AdamW."""
    model = seeded_model(model_shape(config, parse_variant(variant)), seed)
    own = {id(p) for n, p in model.named_parameters() if ".sort." in n or ".blend." in n}
    rest = [p for p in model.parameters() if id(p) not in own]
    mixing = [p for p in model.parameters() if id(p) in own]
    training = config.training
    rows = []

    def evaluate():
        rows.append([result.loss for result in evaluate_model(model.eval(), config.suite)])
        model.train()

    evaluate()
    for task, steps in zip(config.suite.tasks, config.steps, strict=True):
        groups = [{"params": rest}]
        if mixing:
            groups.append({"params": mixing, "lr": 10 * training.lr, "weight_decay": 0.0})
        optimizer = torch.optim.AdamW(
            groups,
            lr=training.lr,
            betas=(training.beta1, training.beta2),
            weight_decay=training.weight_decay,
        )
        data = config.suite.data(task)
        table = task_rows(config.suite, data)
        positions = torch.tensor(table.positions)
        whole = torch.from_numpy(table.train)
        for _ in range(steps):
            logits = model(whole).logits[:, positions]
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), whole[:, positions + 1].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        evaluate()
    return np.array(rows)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("suite", ["modular", "formal"])
def test_the_matrix_is_that_of_a_plain_loop(tmp_path, suite, variant):
    config = tiny(suite, "training.steps=5", "training.lr=3e-3")
    if variant != "dense":  # all tasks are of one kind of rows; two show what a variant does
        config = config.changed([f"suite.order={','.join(config.suite.tasks[1:3])}"])
    seeds = [3, 5] if variant == "dense" else [5]
    folder = trained(config, tmp_path, seeds, variant, save_models="none")
    matrix = read_matrix(folder.path / "matrix.csv")[variant]
    for place, seed in enumerate(matrix.seeds):
        expected = plain_matrix(config, variant, seed)
        np.testing.assert_allclose(matrix.loss[place], expected, atol=2e-4)


def test_all_positions_are_those_of_a_plain_loop(tmp_path):
    config = tiny("modular", "training.steps=5", "suite.loss_positions=all", "training.lr=3e-3")
    folder = trained(config, tmp_path, [3], save_models="none")
    matrix = read_matrix(folder.path / "matrix.csv")["dense"]
    np.testing.assert_allclose(matrix.loss[0], plain_matrix(config, "dense", 3), atol=2e-4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished folder with the models of all phases."""
    config = tiny("formal", "phases.steps=5,10,5,5")
    return config, trained(config, tmp_path_factory.mktemp("whole"), [0, 1, 2], save_models="all")


def test_a_run_leaves_matrix_curves_and_models(whole):
    config, folder = whole
    matrix = read_matrix(folder.path / "matrix.csv")["dense"]
    assert matrix.seeds == (0, 1, 2)
    assert matrix.trained_on == config.suite.tasks
    assert matrix.loss.shape == (3, 5, 4)
    assert (matrix.loss[:, 2, 1] < matrix.loss[:, 0, 1]).all()  # copy was trained in phase 2
    (path,) = (folder.path / "logs" / "dense").glob("phase-2-copy_8-*.parquet")
    log = RunLog.read(path)
    assert log.runs == tuple(f"dense-phase-2-copy_8-seed_{seed}" for seed in range(3))
    assert log.seeds == (0, 1, 2)
    assert log.panel("test_loss").steps[0].tolist() == [0, 5, 10]
    assert set(log.observables) >= {"train_loss", "train_acc", "test_loss", "test_acc"}
    np.testing.assert_array_equal(log.panel("test_loss").values[:, -1], matrix.loss[:, 2, 1])
    about = log.metadata
    assert (about["variant"], about["phase"], about["task"]) == ("dense", 2, "copy_8")
    assert about["begins_after_steps"] == 5
    assert about["task_fingerprint"] == config.suite.data("copy_8").fingerprint()


def test_saved_models_give_the_numbers_of_the_matrix(whole):
    config, folder = whole
    matrix = read_matrix(folder.path / "matrix.csv")["dense"]
    for phase in range(1, 5):
        model = load_model(folder.model("dense", 1, phase))
        found = evaluate_model(model, config.suite)
        np.testing.assert_allclose([r.loss for r in found], matrix.loss[1, phase], atol=1e-5)
        assert [r.accuracy for r in found] == pytest.approx(matrix.accuracy[1, phase].tolist())


def test_a_model_answers_and_is_pushed_with_a_short_card(whole, hub, commands, tmp_path):
    config, folder = whole
    place = folder.model("dense", 1, 2)  # parity, then copy
    described = read_described_model(place)
    assert described.question.endswith(" ->")
    assert described.words == "0, 1, -> and ="
    assert described.made["written by default"] == "8 words"
    assert [row[:2] for row in described.results] == [
        (task, "yes" if at < 2 else "no") for at, task in enumerate(config.suite.tasks)
    ]
    commands.done("model", "push", place, "acme/sequence")
    files = hub.repositories["model:acme/sequence"].files
    assert {"sequence.json", "tokenizer.json", "model.safetensors", "README.md"} <= files.keys()
    card = files["README.md"].decode()
    assert described.answered.startswith(described.question)
    assert f"> {described.answered}" in card.replace("\\", "")
    assert set(described.fingerprints) == {*config.suite.tasks, "weights"}
    assert all(found.fingerprint in card for found in described.fingerprints.values())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(card.split("```python\n")[1].split("\n```")[0], {})
    assert printed.getvalue().strip() == described.answered
    said = commands.refused("model", "push", place, "acme/sequence", "--results", "x.yaml")
    assert said.startswith(f"--results: scores were not judged on runs like {place}; leave it out")


def test_a_note_that_describes_no_model_is_refused(whole, tmp_path):
    _, folder = whole
    place = shutil.copytree(folder.model("dense", 1, 4), tmp_path / "model")
    (place / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"holds no tokenizer\.json; train it again"):
        read_described_model(place)
    (place / "sequence.json").write_text('{"preset": "smoke"}')
    with pytest.raises(InputError, match=r"sequence\.json: does not describe a model \(KeyError"):
        read_described_model(place)


class Interrupted(BaseException):
    """What a callback raises in place of Ctrl-C."""


def stop_after(monkeypatch, method, number):
    """Interrupt a training right after so many calls of a method."""
    owner, name = STOPS[method]
    whole, left = getattr(owner, name), iter(range(number - 1))

    def stopping(*given):
        found = whole(*given)
        if next(left, None) is None:
            raise Interrupted
        return found

    monkeypatch.setattr(owner, name, stopping)


STOPS = {
    "advanced": (Phases, "advance"),
    "evaluated": (Phases, "end_phase"),
    "ended": (States, "drop"),
}


CARRIED = tiny("modular", "suite.order=add,sub,mul", "phases.carry_optimizer=true")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Variant -> a training of two seeds in one go."""
    folder = tmp_path_factory.mktemp("whole")
    return functools.cache(lambda variant: trained(CARRIED, folder / variant, [0, 4], variant))


@pytest.mark.parametrize(
    ("variant", "call", "number"),
    [
        ("dense", "advanced", 9),
        ("dense", "ended", 1),
        ("hebbian-2+sort-3", "advanced", 3),
        ("hebbian-2+sort-3", "advanced", 9),
        ("hebbian-2+sort-3", "evaluated", 1),
        ("hebbian-2+sort-3", "evaluated", 3),
        ("hebbian-2+sort-3", "ended", 1),
    ],
)
def test_interrupted_equals_uninterrupted(
    tmp_path, monkeypatch, uninterrupted, variant, call, number
):
    monkeypatch.setattr(sequential, "SAVE_EVERY_SECONDS", -1.0)
    config, expected = CARRIED, uninterrupted(variant)
    with monkeypatch.context() as context:
        stop_after(context, call, number)
        with pytest.raises(Interrupted):
            trained(config, tmp_path / "cut", [0, 4], variant)
    cut = trained(config, tmp_path / "cut", [0, 4], variant)
    files = [path.relative_to(cut.path) for path in cut.path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.parts[0] == "state"]
    assert sorted(files) == sorted(
        path.relative_to(expected.path) for path in expected.path.rglob("*") if path.is_file()
    )
    for path in files:
        assert (cut.path / path).read_bytes() == (expected.path / path).read_bytes(), path


def test_finished_seeds_and_variants_are_skipped(tmp_path, monkeypatch):
    config = tiny("modular", "training.steps=5")
    trained(config, tmp_path, [0, 1])
    stamp = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")}
    folder = trained(config, tmp_path, [0, 1, 2])
    folder = trained(config, tmp_path, [0, 1, 2], "sort-2")
    matrices = read_matrix(folder.path / "matrix.csv")
    assert {name: found.seeds for name, found in matrices.items()} == {
        "dense": (0, 1, 2),
        "sort-2": (0, 1, 2),
    }
    shard = tmp_path / "matrix" / "dense-seeds-0-1-n2.csv"
    assert shard.stat().st_mtime_ns == stamp[shard]
    monkeypatch.setattr(sequential, "Phases", None)  # nothing is trained again
    trained(config, tmp_path, [0, 1, 2])


def test_another_design_in_the_folder_is_refused(tmp_path):
    trained(tiny("modular", "training.steps=5"), tmp_path, [0])
    with pytest.raises(InputError, match=r"another config \(design.suite.data_seed: 42 -> 7\)"):
        trained(tiny("modular", "training.steps=5", "suite.data_seed=7"), tmp_path, [0])


def test_stopped_seeds_keep_their_weights_and_no_seed_depends_on_another(tmp_path):
    config = tiny("formal", "suite.order=copy_8,parity_8", "training.steps=20")
    free = trained(config, tmp_path / "free", [0, 1, 2])
    curves = RunLog.read(next((free.path / "logs/dense").glob("phase-1-*"))).panel("test_loss")
    enough = float(np.median(curves.values[:, -2]))  # some seed reaches it before the end
    config = config.changed([f"phases.stop_loss={enough!r}", "phases.stop_early=1"])
    together = trained(config, tmp_path / "together", [0, 1, 2], save_models="all")
    log = RunLog.read(next((together.path / "logs/dense").glob("phase-1-*")))
    lengths = [int(present.sum()) for present in log.panel("test_loss").present]
    assert min(lengths) < 5
    stopped = read_matrix(together.path / "matrix.csv")["dense"]
    for place, seed in enumerate(stopped.seeds):
        values = log.panel("test_loss").values[place][: lengths[place]]
        assert (values[:-1] > enough).all()
        assert stopped.loss[place, 1, 0] == pytest.approx(values[-1], rel=1e-5)
        alone = trained(config, tmp_path / f"alone_{seed}", [seed])
        matrix = read_matrix(alone.path / "matrix.csv")["dense"]
        np.testing.assert_allclose(matrix.loss[0], stopped.loss[place], rtol=2e-3)


def test_moments_are_reset_or_carried_as_asked(tmp_path):
    for carried in (False, True):
        config = tiny("modular", f"phases.carry_optimizer={str(carried).lower()}")
        phases = Phases(config, parse_variant("dense"), [0])
        phases.matrix.append(phases.evaluate())
        phases.advance()
        phases.end_phase()
        assert bool(phases.model.optimizer.state) is carried


def test_a_seed_that_diverges_is_left_out_and_named(tmp_path):
    config = tiny("modular", "training.steps=5")
    phases = Phases(config, parse_variant("dense"), [0, 1])
    with torch.no_grad():
        phases.model.weights["model.norm.weight"][1] = float("nan")
    phases.matrix = [phases.evaluate()] * 5
    phases.phase = 4
    folder = sequential.SequentialFolder(tmp_path)
    folder.write_results(phases)
    assert folder.finished_seeds("dense") == {0, 1}
    assert folder.diverged_seeds("dense") == (1,)
    folder.merge()
    assert read_matrix(tmp_path / "matrix.csv")["dense"].seeds == (0,)


@pytest.mark.parametrize(
    ("suite", "variant", "message"),
    [
        ("modular", "sort-9", "variant 'sort-9': .*sort_window.*8"),
        ("formal", "blend-25", "variant 'blend-25': .*blend_window.*24"),
        ("modular", "hebbian-9", "variant 'hebbian-9': .*hebbian_window.*8"),
    ],
)
def test_a_variant_that_does_not_fit_is_refused(suite, variant, message):
    with pytest.raises(InputError, match=message):
        model_shape(tiny(suite), parse_variant(variant))


def test_a_band_that_disconnects_a_unit_is_refused():
    config = tiny("modular", "model.mlp_width=32")
    with pytest.raises(InputError, match=r"variant 'banded-1': .*band"):
        model_shape(config, parse_variant("banded-1"))


def test_a_phase_that_some_seeds_have_ended_goes_on_exactly(tmp_path):
    config = tiny("formal", "suite.order=copy_8,parity_8", "training.steps=30")

    def begun():
        phases = Phases(config, parse_variant("hebbian-2"), [0, 1, 2])
        phases.matrix.append(phases.evaluate())
        return phases

    def steps(phases, count):
        for _ in range(count):
            phases.advance()

    whole = begun()
    steps(whole, 10)
    whole.stopped[1] = whole.step  # as `measure` does
    whole._active = None
    before = {name: weight[1].clone() for name, weight in whole.model.weights.items()}
    steps(whole, 5)
    saved = {name: tensor.clone() for name, tensor in whole.state().items()}
    steps(whole, 10)
    assert not whole.finished

    resumed = begun()
    resumed.load_state(saved, whole.rows)
    steps(resumed, 10)
    for phases in (whole, resumed):
        phases.end_phase()
    for name, weight in whole.model.weights.items():
        assert torch.equal(weight, resumed.model.weights[name]), name
        assert torch.equal(weight[1], before[name]), name
        assert not torch.equal(weight[0], before[name]), name
