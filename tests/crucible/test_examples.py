"""The examples in the docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import gmb_hf.crucible

MODULES = sorted(module.name for module in pkgutil.iter_modules(gmb_hf.crucible.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(f"gmb_hf.crucible.{name}")).failed == 0
