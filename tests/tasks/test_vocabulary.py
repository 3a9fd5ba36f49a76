"""Token ids: the protocol's table, and ids that never change their meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.formal import FORMAL_VOCABULARY
from gmb_hf.tasks.modular import (
    OPERATIONS,
    is_prime,
    modular_vocabulary,
    nearest_prime,
    operation_id,
)


def test_the_protocols_sizes_at_97():
    four = list(OPERATIONS)[:4]
    assert modular_vocabulary(97, four, "shared").size == 101
    assert modular_vocabulary(97, four, "distinct").size == 104
    assert FORMAL_VOCABULARY.size == 101


def test_ids_at_97():
    words = modular_vocabulary(97, ["add"])
    assert (words.eq, words.bos, words.eos) == (98, 99, 100)
    ids = {operation: operation_id(operation, 97) for operation in OPERATIONS}
    assert ids == {
        "add": 97,
        "sub": 101,
        "mul": 102,
        "sq_sum": 103,
        "div": 104,
        "x2_xy_y2": 105,
    }
    assert {operation_id(operation, 97, "shared") for operation in OPERATIONS} == {97}


def test_later_operations_only_lengthen_the_vocabulary():
    sizes = [modular_vocabulary(97, [operation]).size for operation in OPERATIONS]
    assert sizes == [104, 104, 104, 104, 105, 106]
    assert modular_vocabulary(97, OPERATIONS).size == 106
    assert modular_vocabulary(97, OPERATIONS, "shared").size == 101


@given(st.sampled_from([2, 3, 5, 29, 97]), st.sets(st.sampled_from(list(OPERATIONS)), min_size=1))
def test_distinct_tokens_are_distinct_and_in_the_vocabulary(prime, operations):
    words = modular_vocabulary(prime, operations)
    ids = [operation_id(operation, prime) for operation in operations]
    ids += [words.bos, words.eos, words.eq]
    assert len(set(ids)) == len(ids)
    assert prime <= min(ids) <= max(ids) < words.size


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"operation 'subt' is unknown.*Did you mean 'sub'"):
        operation_id("subt", 97)
    with pytest.raises(InputError, match=r"op_token 'share' is unknown.*Did you mean 'shared'"):
        operation_id("sub", 97, "share")
    with pytest.raises(InputError, match="operations: none given"):
        modular_vocabulary(97, [])


def test_primes():
    assert [n for n in range(-3, 30) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert [nearest_prime(n) for n in (0, 1, 9, 90, 98)] == [2, 2, 7, 89, 97]
