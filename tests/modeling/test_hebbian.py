"""The Hebbian pull: against loops over tokens, in training alone, and over several processes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_builders import build, tokens

from gmb_hf.modeling.mixers import hebbian_pull, neighbour_sums

VOCABULARY = 7


def by_loops(embedding, input_ids, window, rate, present):
    """Every token's mean over its occurrences, each pulled by its neighbours on both sides."""
    moved = embedding.clone()
    for token in range(len(embedding)):
        pulls = []
        for row, there in zip(input_ids.tolist(), present.tolist(), strict=True):
            for i in range(len(row)):
                if row[i] != token or not there[i]:
                    continue
                pull = torch.zeros_like(embedding[0])
                for j in range(max(0, i - window), min(len(row), i + window + 1)):
                    if j != i and there[j]:
                        pull += rate / abs(i - j) * (embedding[row[j]] - embedding[token])
                pulls.append(pull)
        if pulls:
            moved[token] += sum(pulls) / len(pulls)
    return moved


def draw(seed, rows=4, length=6):
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCABULARY, 3, dtype=torch.float64, generator=generator)
    input_ids = torch.randint(VOCABULARY, (rows, length), generator=generator)
    return embedding, input_ids, torch.rand(rows, length, generator=generator) < 0.7


@given(st.integers(0, 999), st.integers(1, 4), st.integers(1, 7), st.integers(1, 9), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_pull_is_its_loop_over_tokens(seed, rows, length, window, padded):
    embedding, input_ids, present = draw(seed, rows, length)
    present = present if padded else torch.ones_like(present)
    expected = by_loops(embedding, input_ids, window, 0.1, present)
    hebbian_pull(embedding, input_ids, window, 0.1, present if padded else None)
    torch.testing.assert_close(embedding, expected, rtol=1e-12, atol=1e-12)


def test_by_hand():
    embedding = torch.tensor([[0.0], [6.0], [12.0], [5.0]])
    hebbian_pull(embedding, torch.tensor([[0, 1, 2], [0, 0, 0]]), window=2, rate=0.1)
    # Token 0: (6 + 12 / 2) / 4 over its four places; token 1: -6 + 6; token 2: -6 - 12 / 2.
    torch.testing.assert_close(embedding, torch.tensor([[0.3], [6.0], [10.8], [5.0]]))


def test_the_sums_of_the_identity_are_the_matrix_of_the_pull():
    embedding, input_ids, present = draw(3)
    matrix, counts = neighbour_sums(torch.eye(VOCABULARY).double(), input_ids, 3, present)
    sums, again = neighbour_sums(embedding, input_ids, 3, present)
    torch.testing.assert_close(matrix @ embedding, sums)
    torch.testing.assert_close(matrix.sum(1), torch.zeros(VOCABULARY).double())
    assert torch.equal(counts, again)
    assert counts.sum() == present.sum()


def test_a_training_forward_pulls_once_and_reads_the_pulled_embeddings():
    model = build(dtype=torch.float64, hebbian_window=2, hebbian_rate=0.05)
    start = model.model.embed_tokens.weight.detach().clone()
    input_ids = tokens(3, 6)
    plain = build(dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(model(input_ids).logits, plain(input_ids).logits)
    assert torch.equal(model.model.embed_tokens.weight, start)
    pulled = by_loops(start, input_ids, 2, 0.05, torch.ones(3, 6))
    for _ in range(2):
        output = model.train()(input_ids, labels=input_ids)
        torch.testing.assert_close(model.model.embed_tokens.weight.detach(), pulled)
        with torch.no_grad():
            plain.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight)
        expected = plain(input_ids, labels=input_ids)
        torch.testing.assert_close(output.logits, expected.logits, rtol=1e-12, atol=1e-12)
        pulled = by_loops(pulled, input_ids, 2, 0.05, torch.ones(3, 6))
    output.loss.backward()
    expected.loss.backward()
    gradients = [part.model.embed_tokens.weight.grad for part in (model, plain)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning")
def test_gradient_checkpointing_does_not_pull_again():
    weights = []
    for checkpointing in (False, True):
        model = build(hebbian_window=2, hebbian_rate=0.05).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(tokens(3, 6), labels=tokens(3, 6)).loss.backward()
        weights.append(model.model.embed_tokens.weight)
    assert torch.equal(*weights)


def test_padding_neither_pulls_nor_is_pulled():
    padded = torch.cat([torch.tensor([[16, 16, 3, 4, 5]]), tokens(1, 5, vocab_size=16)])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    model = build(hebbian_window=2, hebbian_rate=0.05).train()
    start = model.model.embed_tokens.weight.detach().clone()
    model(padded, attention_mask=mask)
    assert torch.equal(model.model.embed_tokens.weight[16], start[16])
    expected = by_loops(start, padded, 2, 0.05, mask)
    torch.testing.assert_close(model.model.embed_tokens.weight.detach(), expected)


def test_inputs_that_are_refused():
    model = build(hebbian_window=2).train()
    embedded = torch.zeros(1, 3, 24)
    with pytest.raises(ValueError, match="in training; give input_ids, not inputs_embeds"):
        model(inputs_embeds=embedded)
    assert model.eval()(inputs_embeds=embedded).logits.shape == (1, 3, 17)
    with pytest.raises(ValueError, match=r"with hebbian_window takes an attention_mask"):
        model.train()(tokens(1, 3), attention_mask=torch.ones(1, 1, 3, 3))


def test_processes_pull_as_one(monkeypatch):
    embedding, input_ids, present = draw(8)
    shares = slice(0, 1), slice(1, None)
    sums = [
        iter(neighbour_sums(embedding, input_ids[share], 2, present[share])) for share in shares
    ]
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    found = []
    for rank, share in enumerate(shares):
        pulled, others = embedding.clone(), sums[1 - rank]
        monkeypatch.setattr(
            torch.distributed, "all_reduce", lambda own, others=others: own.add_(next(others))
        )
        hebbian_pull(pulled, input_ids[share], 2, 0.1, present[share])
        found.append(pulled)
    monkeypatch.undo()
    hebbian_pull(embedding, input_ids, 2, 0.1, present)
    for pulled in found:
        torch.testing.assert_close(pulled, embedding)
