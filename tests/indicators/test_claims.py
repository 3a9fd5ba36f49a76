"""The claims of papers, read from their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.indicators.claims import CLAIMS, read_claims


def test_claims_are_read_in_the_order_of_the_file() -> None:
    assert len(CLAIMS) == 54
    first, last = CLAIMS[0], CLAIMS[-1]
    assert (first.signal, first.paper) == ("Commutator defect", "Xu 2602.16746")
    assert first.indicators == ("commutator_defect", "commutator_rule")
    said = "it rises 600 to 1,600 steps before generalisation in all 12 runs; its rule of ten times"
    assert first.reports.startswith(said)
    assert "\n" not in first.reports
    assert last.indicators == ("probe_accuracy",)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("claims: []\nclaim: x\n", "claim is unknown; did you mean claims"),
        ("claims: [{signal: a, paper: b, reports: c}]\n", r"claims\[0\].indicators is required"),
        (
            "claims: [{signal: 1, paper: b, reports: c, indicators: [d]}]\n",
            r"claims\[0\].signal must be text \(put it in quotes\), got 1",
        ),
    ],
)
def test_a_fault_names_its_field(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"claims.yaml: {fault}"):
        read_claims(path)
