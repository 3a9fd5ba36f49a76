"""The tokenizer of tasks: its ids are those of the datasets, and pipelines answer with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast, pipeline

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import (
    GrokkingTokenizer,
    GrokkingTransformerConfig,
    GrokkingTransformerForCausalLM,
    described_words,
)
from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import Ints, Task, Vocabulary
from gmb_hf.training.checkpoints import save_model


class Doubles(Task):
    """A task of another package: `BOS x EQ 2x`, of which nothing but the rows is known."""

    name, sequence_length, answer_positions = "doubles", 4, (2,)
    vocabulary = Vocabulary(size=13, bos=11, eos=12, eq=10)

    def operands(self) -> dict[str, Ints]:
        return {"x": np.arange(5)}

    def rows(self) -> Ints:
        x = np.arange(5)
        return np.stack([x * 0 + 11, x, x * 0 + 10, 2 * x], axis=1)


TASKS = [
    *(f"{operation}_p13" for operation in OPERATIONS),
    *("parity_4", "copy_4", "reverse_3", "majority_5"),
]


def asked(task: Task) -> list[list[int]]:
    """The rows up to the answer."""
    questions: list[list[int]] = task.rows()[:, : task.answer_positions[0] + 1].tolist()
    return questions


def model_of(task: Task, seed: int = 0) -> GrokkingTransformerForCausalLM:
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    return GrokkingTransformerForCausalLM(
        GrokkingTransformerConfig(
            vocab_size=task.vocab_size, max_position_embeddings=task.block_size, **shape
        )
    ).eval()


@pytest.mark.parametrize("name", TASKS)
def test_the_ids_are_those_of_the_datasets(name: str) -> None:
    task = get_task(name)
    tokenizer = GrokkingTokenizer.of_tasks([task])
    assert tokenizer(task.prompts()).input_ids == asked(task)
    assert len(tokenizer) == task.vocab_size
    rows = task.to_dataset_dict()["test"]
    answer = rows[0]["labels"].index(next(label for label in rows[0]["labels"] if label != -100))
    text = tokenizer.decode(rows[0]["input_ids"][:answer], skip_special_tokens=True)
    assert tokenizer(text).input_ids == rows[0]["input_ids"][:answer]


@pytest.mark.parametrize("op_token", ["distinct", "shared"])
def test_tasks_of_a_sequence_share_a_vocabulary(op_token: str) -> None:
    tasks = [ModularTask(operation, 13, op_token=op_token) for operation in list(OPERATIONS)[:4]]
    tokenizer = GrokkingTokenizer.of_tasks(tasks)
    for task in tasks:
        assert tokenizer(task.prompts()).input_ids == asked(task)
    assert len(tokenizer) == tasks[0].vocab_size
    assert ("op" in tokenizer.get_vocab()) == (op_token == "shared")


def test_equations_need_no_spaces_and_keep_their_powers() -> None:
    add, both = (
        GrokkingTokenizer.of_tasks([get_task(name)]) for name in ("add_p97", "x2_xy_y2_p97")
    )
    assert add(" 15+7= ").input_ids == [99, 15, 97, 7, 98]
    assert both("15^2+15*7+7^2=").input_ids == both("15 x2_xy_y2 7 =").input_ids
    with pytest.raises(InputError, match=r"'15\^2\+7\*7\+7\^2' is no word"):
        both("15^2+7*7+7^2 =")
    bits = GrokkingTokenizer.of_tasks([get_task("copy_4")])
    assert bits("0110->").input_ids == bits("0 1 1 0 ->").input_ids


def test_an_unknown_word_is_named_with_those_known(tmp_path: Path) -> None:
    tokenizer = GrokkingTokenizer.of_tasks([get_task("sub_p13")])
    with pytest.raises(
        InputError, match=r"^'13' is no word of this model; it knows 0 to 12, - and"
    ):
        tokenizer("5 - 13 =")
    with pytest.raises(InputError, match="'six' is no word"):
        tokenizer(["5 - 1 =", "six - 1 ="])
    formal = GrokkingTokenizer.of_tasks([get_task("parity_4"), get_task("copy_4")])
    assert described_words(formal.get_vocab()) == "0, 1, -> and ="
    with pytest.raises(InputError, match="needs the tasks"):
        GrokkingTokenizer.of_tasks([])
    with pytest.raises(InputError, match="copy_4 and sub_p13 have other special tokens"):
        GrokkingTokenizer.of_tasks([get_task("sub_p13"), get_task("copy_4")])


def test_a_task_of_another_package_has_numbers_for_words() -> None:
    tokenizer = GrokkingTokenizer.of_tasks([Doubles()])
    assert tokenizer(Doubles().prompts()).input_ids == asked(Doubles())
    assert tokenizer("3 =").input_ids == [11, 3, 10]


@pytest.mark.parametrize("name", ["add_p13", "reverse_3"])
def test_a_pipeline_answers_with_no_further_argument(name: str, tmp_path: Path) -> None:
    task = get_task(name)
    save_model(model_of(task), tmp_path, [task])
    answers = len(task.answer_positions)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded) is GrokkingTokenizer
    ask = pipeline("text-generation", model=str(tmp_path))
    questions = task.prompts()[:3]
    found = [one[0]["generated_text"] for one in ask(questions)]
    for question, text in zip(questions, found, strict=True):
        ids, words = loaded(question, return_tensors="pt").input_ids, []
        for _ in range(answers):  # the likeliest token, one after the other, up to EOS
            following = int(ask.model(ids).logits[0, -1].argmax())
            if following == task.vocabulary.eos:
                break
            words.append(loaded.convert_ids_to_tokens(following))
            ids = torch.cat([ids, torch.tensor([[following]])], dim=1)
        assert text == " ".join([question, *(word for word in words if word != "[BOS]")])
    assert [one[0]["generated_text"] for one in ask(questions, batch_size=3)] == found
    assert loaded.model_max_length == task.block_size
    with pytest.raises(InputError, match="'six' is no word of this model"):
        ask("six =")


def test_the_tokenizer_needs_neither_this_package_nor_code_of_its_own(tmp_path: Path) -> None:
    task = get_task("add_p13")
    save_model(model_of(task), tmp_path, [task])
    plain = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert plain(task.prompts()).input_ids == asked(task)
    assert plain.decode([12]) == " 12"
    assert "auto_map" not in (tmp_path / "tokenizer_config.json").read_text()
    again = tmp_path / "again"
    save_model(model_of(task), again, [task])
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (again / file).read_bytes() == (tmp_path / file).read_bytes()
