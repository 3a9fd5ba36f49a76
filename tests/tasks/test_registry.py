"""Tasks by name."""

import doctest

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.tasks import groups, modular, registry
from gmb_hf.tasks.formal import LANGUAGES, FormalTask, Language
from gmb_hf.tasks.groups import GroupTask
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.registry import get_task, task_names


def test_names_find_their_tasks():
    assert get_task("add_p97") == ModularTask("add", 97)
    assert get_task("modular_add") == ModularTask("add", 97)
    assert get_task("modular_sub", prime=29) == ModularTask("sub", 29)
    assert get_task("sub_p29", prime=29) == ModularTask("sub", 29)
    assert get_task("x2_xy_y2_p13") == ModularTask("x2_xy_y2", 13)
    assert get_task("dihedral_15") == GroupTask("dihedral", 15)
    assert get_task("dihedral_5", keep_pairs_together=True) == GroupTask("dihedral", 5, True)
    assert get_task("parity_8") == FormalTask("parity", 8)
    assert get_task("majority_11", sequence_length=24) == FormalTask("majority", 11, 24)
    assert get_task("mul_p7", op_token="shared", corruption_rate=0.1) == ModularTask(
        "mul", 7, op_token="shared", corruption_rate=0.1
    )


def test_a_language_may_have_several_words(monkeypatch: pytest.MonkeyPatch):
    first_bit = Language(lambda bits: bits[:, :1])
    monkeypatch.setitem(LANGUAGES, "first_bit", first_bit)
    assert get_task("first_bit_8") == FormalTask("first_bit", 8)


def test_every_listed_name_is_the_tasks_own():
    assert all(get_task(name).name == name for name in task_names())
    assert len(task_names()) == 14


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ad_p97", {}, "task 'ad_p97' is unknown.*Did you mean 'add_p97'"),
        ("modular_ad", {}, "Did you mean 'modular_add'"),
        ("", {}, "task '' is unknown"),
        ("parity", {}, "say how many bits, e.g. parity_8"),
        ("add_p97", {"prime": 29}, "names its prime, and prime=29 is another"),
        ("add_p96", {}, "must be a prime number, got 96; 97 is one"),
        ("modular_add", {"prime": 0}, "prime must be a whole number of at least 1"),
        ("parity_8", {"prime": 97}, "takes no prime"),
        ("parity_8", {"corruption_rate": 0.1}, "option 'corruption_rate' is unknown"),
        ("add_p97", {"op_tokens": "shared"}, "Did you mean 'op_token'"),
        ("dihedral", {}, "say which degree, e.g. dihedral_15"),
        ("dihedral_15", {"prime": 97}, "task 'dihedral_15' is a group and takes no prime"),
        ("dihedrl_15", {}, "Did you mean 'dihedral_15'"),
        ("copy_9", {}, "copy_9 takes 21 tokens"),
    ],
)
def test_bad_names_and_options(name, options, message):
    with pytest.raises(InputError, match=message):
        get_task(name, **options)


@pytest.mark.parametrize("module", [registry, modular, groups])
def test_examples_in_the_documentation(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
