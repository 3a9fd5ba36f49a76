"""The plain forward that shows activations, against one member's own Hugging Face model."""

import pytest
import torch
from training_builders import EQUALS, difference, equations, lively_model, small_config, stacked

from gmb_hf.training import activations
from gmb_hf.training.observables import Observer
from gmb_hf.training.stacked import task_data

SEEDS = (3, 8)
CASES = {
    "one layer": {},
    "two layers, tied": {"model": {"layers": 2, "tied": True, "activation": "gelu_new"}},
    "without norms": {"model": {"layers": 2, "layer_norm": False}},
}


@pytest.mark.parametrize("sections", CASES.values(), ids=CASES.keys())
def test_it_shows_what_the_model_itself_computes(sections):
    config = small_config(**sections)
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    assert activations.shows_activations(stack)
    rows = activations.asked_rows(stack)
    shown = activations.forward(stack.weights, stack.shape, activations.embed(stack.weights, rows))
    for index, (seed, model) in enumerate(models.items()):
        input_ids = equations(config, seed)[0]
        assert torch.equal(rows[index], input_ids[:, : EQUALS + 1])
        inside = {}
        for place, layer in enumerate(model.model.layers):
            layer.mlp.up.register_forward_hook(
                lambda _, __, out, place=place, inside=inside: inside.__setitem__(place, out)
            )
        out = model(input_ids=input_ids, output_attentions=True)
        hidden = model.model(input_ids=input_ids).last_hidden_state
        assert difference(shown.logits[index], out.logits[:, EQUALS]) < 1e-12
        assert difference(shown.hidden[index], hidden[:, EQUALS]) < 1e-12
        for place, layer in enumerate(model.model.layers):
            own = out.attentions[place][:, :, EQUALS, : EQUALS + 1]
            assert difference(shown.attention[place][index], own) < 1e-12
            before = inside[place][:, EQUALS]
            assert difference(shown.before[place][index], before) < 1e-12
            assert difference(shown.units[place][index], layer.mlp.act(before)) < 1e-12


def test_its_gradient_by_the_embedding_is_autograds_own():
    config = small_config()
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    stack = stacked(config, models)
    rows = activations.asked_rows(stack)[:, :4]
    embedded = activations.embed(stack.weights, rows).detach().requires_grad_()
    activations.forward(stack.weights, stack.shape, embedded).logits.sum().backward()
    for index, (seed, model) in enumerate(models.items()):
        ids = equations(config, seed)[0][:4, : EQUALS + 1]
        inputs = model.model.embed_tokens(ids).detach().requires_grad_()
        model(inputs_embeds=inputs).logits[:, EQUALS].sum().backward()
        assert difference(embedded.grad[index], inputs.grad) < 1e-12


@pytest.mark.parametrize(
    "model", [{"sort_window": 2}, {"layers": 2, "cycles": 2, "inner_steps": 1}]
)
def test_it_does_not_claim_to_know_other_layers(model):
    config = small_config(model=model)
    assert not activations.shows_activations(stacked(config, {1: lively_model(config, 1)}))


def of_pairs(models, config):
    """What is recorded of the models with copying heads."""
    stack = stacked(config, models)
    observer = Observer(stack, [activations.CopyingHeads(stack)])
    return observer.measure(*stack.gradients(keep_logits=True))


@pytest.mark.parametrize(
    "task", ["copy_rule_p11_k5_n60", "linear_p5_k3", "affine_table_p11_k4_n40"]
)
def test_copying_heads_by_the_models_own_attention(task):
    config = small_config(task={"name": task}, model={"layers": 2})
    models = {seed: lively_model(config, seed) for seed in SEEDS}
    found = of_pairs(models, config)
    for index, (seed, model) in enumerate(models.items()):
        data = task_data(config.task, seed)
        rows = data.input_ids[data.train_index][: activations.CopyingHeads.ROWS]
        with torch.no_grad():
            out = model(input_ids=torch.from_numpy(rows), output_attentions=True)
        matching, previous = [], []
        for layer in out.attentions:  # [n, h, T, T]
            for head in range(layer.shape[1]):
                shares, own = [], []
                last = rows.shape[1] - 2
                for row, pattern in zip(rows, layer[:, head], strict=True):
                    after = [x + 1 for x in range(1, last, 2) if row[x] == row[last]]
                    if after:
                        shares.append(float(pattern[last, after].sum()))
                    own.append(float(pattern[last - 1, last - 2]))
                matching.append(sum(shares) / len(shares))
                previous.append(sum(own) / len(own))
        assert found["prefix_matching"][index] == pytest.approx(max(matching), abs=1e-6)
        assert found["previous_token"][index] == pytest.approx(max(previous), abs=1e-6)


@pytest.mark.parametrize(
    ("task", "model"),
    [({"prime": 7}, {}), ({"name": "copy_rule_p11_k5_n60"}, {"sort_window": 2})],
    ids=["equations", "a mixer"],
)
def test_no_copying_heads_where_there_are_none(task, model):
    config = small_config(task=task, model=model)
    found = of_pairs({1: lively_model(config, 1)}, config)
    assert not {"prefix_matching", "previous_token"} & found.keys()
