"""Indicators that are a recorded column: their file, and what is refused of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import register_declared
from gmb_hf.indicators.published import FORMULAS
from gmb_hf.runs.runlog import RunLog

ENTRY = "- {name: %s, summary: s, source: t, family: dynamics%s}\n"


def test_columns_logarithms_and_falls() -> None:
    values = [[1.0, np.e, 1.0]]
    log = RunLog.from_arrays(
        ["a"],
        [0, 10, 20],
        dict.fromkeys(("tail_exponent", "gradient_variance", "compressed_length"), values),
    )
    found = {
        name: catalogue.compute(log, name).values[0].tolist()
        for name in ("tail_exponent", "gradient_variance", "compressed_length_drop")
    }
    assert found["tail_exponent"] == [-1.0, -np.e, -1.0]  # low means risk
    assert np.allclose(found["gradient_variance"], [0, 1, 0])
    assert np.allclose(found["compressed_length_drop"], [0, 0, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY % ("weight_norm", ""), "indicator 'weight_norm' is registered already; choose"),
        (
            ENTRY % ("new", ", formula: log_drops"),
            r"new: formula 'log_drops' is unknown.* Did you mean 'log_drop'",
        ),
        (ENTRY % ("new", ", lows: true"), r"indicators\[0\].lows is unknown; did you mean low"),
        ("- name: new\n", r"indicators\[0\].summary is required; add it"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        register_declared(path, FORMULAS)
    assert "new" not in catalogue.names()
