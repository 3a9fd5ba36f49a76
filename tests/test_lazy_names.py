"""The package loads its names when they are first used: each name is there, and no other."""

from __future__ import annotations

import pytest

import gmb_hf


def test_every_name_is_where_the_package_says():
    assert dir(gmb_hf) == sorted(gmb_hf.__all__)
    missing = [name for name in gmb_hf.__all__ if not hasattr(gmb_hf, name)]
    assert not missing, f"gmb_hf has no {', '.join(missing)}"


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'gmb_hf' has no attribute 'Panelx'$"):
        _ = gmb_hf.Panelx
