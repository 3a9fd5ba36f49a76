"""What papers report of their signals, which a trial puts beside what it measured.

They stand in claims.yaml, one a signal, in the order of the survey (docs/signals.md).
"""

from __future__ import annotations

from pathlib import Path

from gmb_hf.base.documents import Many, Section, load_yaml


class Claim(Section):
    """What a paper reports of a signal.

    Attributes:
        signal, paper: their names.
        reports: what the paper found, in one sentence, and how it was tested where it says so.
        indicators: the registered indicators that measure the signal.
    """

    signal: str
    paper: str
    reports: str
    indicators: Many[str]


class _Survey(Section):
    claims: Many[Claim]


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a file, in its order.

    Raises:
        InputError: it is no YAML file of claims; the path of a wrong field is named.
    """
    return _Survey.parse(load_yaml(path), where=str(path)).claims


CLAIMS = read_claims(Path(__file__).with_name("claims.yaml"))
