"""Asking the C library to keep freed memory."""

import ctypes
import sys

import pytest

from gmb_hf.training.launch import keep_freed_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has mallopt")
def test_glibc_agrees_also_when_asked_again():
    assert keep_freed_memory() is keep_freed_memory()


@pytest.mark.parametrize("error", [OSError("no libc.so.6"), AttributeError("no mallopt")])
def test_elsewhere_nothing_happens(monkeypatch, error):
    def missing(name):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert keep_freed_memory() is False
