"""Pretrained scores: learned combinations that were fitted on other runs, without thresholds.

    scores/NAME.yaml     members, features, scales and coefficients; what it was fitted on; a hash

Scores travel, thresholds do not: a lock makes those anew on explore runs of one's own, of which
none was fitted on (DECISIONS 14).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base.checksums import Checksums
from gmb_hf.base.documents import Count, Many, Section, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, first_of
from gmb_hf.base.schemas import Schema
from gmb_hf.design.candidates import Pretrained
from gmb_hf.design.ledger import SHIPPED
from gmb_hf.design.locked_ensembles import LockedEnsemble

SCORES = "scores"
SCHEMA = Schema("pretrained score", ())
CHECKSUMS = Checksums("hash", since="it was fitted", hint="fit it again, or fetch it anew")
_HEADING = """\
A pretrained score of gmb-hf: a learned combination without thresholds; a lock makes them on runs of
one's own: gmb lock --pretrained FILE --runs ... Do not edit: a changed score is refused."""


class FittedOn(Section):
    """Runs that a score was fitted on."""

    source: str = Field(description="a panel, or what else they were read from")
    fingerprint: str = Field(description="content hash of these runs")
    runs: Count
    with_both: Count = Field(description="runs with positive and negative windows")


class PretrainedScore(Section):
    """A fitted combination, frozen with a hash."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    kind: Literal["label-free", "label-using", "task-aware"]
    about: str = Field("", description="what it is told, in a sentence")
    event: str = Field(description="the event that it was fitted to, in words")
    horizon_steps: Annotated[int, Field(ge=1)]
    safe_gap_steps: Annotated[int, Field(ge=1)]
    cadence: Annotated[int, Field(ge=1)] = Field(
        description="steps between checkpoints; windows of members are as many checkpoints long "
        "at any other cadence"
    )
    every: Annotated[int, Field(ge=1)] = Field(
        description="of so many checkpoints one was fitted on"
    )
    needs: Many[str] = Field(description="columns that its members read")
    fitted_on: Many[FittedOn]
    formula: LockedEnsemble
    x_schema: int = SCHEMA.current
    package_version: str = __version__
    hash: str = ""

    @classmethod
    def build(cls, **fields: object) -> Self:
        """One with its hash."""
        bare = cls.parse({**fields, "hash": ""}, where="pretrained score").plain()
        return cls.parse(CHECKSUMS.added_to(bare), where="pretrained score")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file and check its hash.

        Raises:
            InputError: it is no pretrained score, of a later schema, or was edited.
        """
        data = load_yaml(path)
        if not isinstance(data, dict) or "formula" not in data:
            reason = "is no pretrained score (there is no formula); make one with gmb score fit"
            raise InputError.at(path, "not_a_score", reason)
        content = SCHEMA.opened(data, where=str(path))
        try:
            found = cls.parse(content, where=str(path))
        except InputError:
            CHECKSUMS.check(data, str(path))  # an edit is the likelier reason
            raise
        CHECKSUMS.check(data, str(path), typed=found.plain)
        return found

    @classmethod
    def find(cls, source: str | Path) -> Self:
        """The score of that name which the package ships, or that a file holds.

        Raises:
            InputError: there is none; the nearest name is given.
        """
        path = Path(source)
        if path.suffix in (".yaml", ".yml") or path.exists():
            return cls.read(path)
        return cls.read(_shipped()[choose("pretrained score", str(source), [*_shipped()])])

    def write(self, path: str | Path) -> Path:
        """Write it as YAML, atomically."""
        return write_yaml(path, self.plain(), heading=_HEADING)

    def at_cadence(self, cadence: int) -> LockedEnsemble:
        """The formula for runs with another cadence: members' windows have as many checkpoints."""
        members = []
        for member in self.formula.members:
            fitted = {
                name: value * cadence // self.cadence if name.endswith("window") else value
                for name, value in member.params.items()
                if not isinstance(value, str)
            }
            members.append(member.model_copy(update={"params": {**member.params, **fitted}}))
        sources = first_of([one.source for one in self.fitted_on])
        known = {"pretrained": self.hash, "fitted_elsewhere": sources}
        return self.formula.model_copy(update={"members": tuple(members), **known})


def shipped_scores() -> tuple[str, ...]:
    """The names of those that the package ships, sorted."""
    return tuple(sorted(_shipped()))


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted((SHIPPED / SCORES).glob("*.yaml"))}


def pretrained(declared: Pretrained, where: str) -> PretrainedScore:
    """The score that a candidate names, which must be the one of its hash.

    Raises:
        InputError: it is not there, or is another one.
    """
    found = PretrainedScore.find(declared.source)
    if declared.hash and declared.hash != found.hash:
        raise InputError(
            f"{where}: the pretrained score {declared.source!r} is {found.hash[:16]} here, the "
            f"design asks for {declared.hash[:16]}; give the file that it was made with, or make "
            "the design anew"
        )
    return found
