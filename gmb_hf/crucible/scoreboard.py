"""Scoreboards: what one model does on one evaluation set, overall and tier by tier.

Spec: Crucible metrics, "Scoreboard Schema". Fields that begin with `x_` are extensions.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, FiniteFloat, model_validator

from gmb_hf.base.documents import Section
from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import cut, html_table, number
from gmb_hf.base.files import read_json, write_json
from gmb_hf.base.fingerprints import fingerprint, fingerprint_line
from gmb_hf.base.tables import Column, Line, Table
from gmb_hf.crucible.bundles import lost_items
from gmb_hf.crucible.margins import TIERS, check_names, listed, margin_stats
from gmb_hf.crucible.scores import ItemScores
from gmb_hf.report.sheet import Sheet

SEED = 42
"""Seed of an evaluation that names none; it is part of the fingerprint."""

_LARGEST = 2**20  # bytes of a file that may be a scoreboard

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
# The spec's example has letters beyond f; the reference stores 16 digits, this package 64.
Hash = Annotated[str, Field(pattern="^[0-9a-z]{16,64}$")]


class TierStats(Section):
    """One tier, or all items; every statistic is None where there are none."""

    n: Count = Field(description="items")
    correct: Count = Field(description="items with a margin above 0")
    accuracy: Share | None = Field(description="correct / n")
    pass_rate: Share | None = Field(description="the same, for one positive an item")
    mean_margin: FiniteFloat | None
    median_margin: FiniteFloat | None
    q10_margin: FiniteFloat | None
    q90_margin: FiniteFloat | None
    mean_rank: Annotated[FiniteFloat, Field(ge=1)] | None = Field(description="strict rank")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.correct > self.n:
            raise ValueError(f"{self.correct} of {self.n} items cannot be correct")
        for name in ("accuracy", "pass_rate"):
            share = getattr(self, name)
            if (share is None) != (self.n == 0):
                raise ValueError(f"{name} must be null exactly where n is 0")
            if share is not None and not math.isclose(share, self.correct / self.n, abs_tol=5e-5):
                raise ValueError(f"{name} {share} is not correct / n, {self.correct}/{self.n}")
        return self


class EvalHeader(Section):
    """What was evaluated on."""

    fingerprint: str = Field(description="source_hash|seed|item_count, 16 digits of the hash")
    source_hash: Hash = Field(description="SHA-256 of the eval file's bytes")
    content_hash: Hash | None = Field(None, description="hash of the items, whatever their format")
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    item_count: Count
    tier_distribution: dict[str, Count] = Field(description="items in each tier; {}: no tiers")
    version: str = Field(description="of the evaluation set")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.version.strip():
            raise ValueError("version is empty; name that of the evaluation set, e.g. v1")
        expected = fingerprint(self.source_hash, self.seed, self.item_count)
        if self.fingerprint.removeprefix("EVAL_FINGERPRINT: ") != expected:
            raise ValueError(f"fingerprint {self.fingerprint!r} must be {expected!r}")
        check_names(self.tier_distribution)
        total = sum(self.tier_distribution.values())
        if self.tier_distribution and total != self.item_count:
            raise ValueError(f"tier_distribution adds up to {total}, not to {self.item_count}")
        return self

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """A header of all its other fields, with the fingerprint that follows from them.

        Raises:
            InputError: a field does not fit, e.g. an empty version.
        """
        shown = fingerprint(fields["source_hash"], fields["seed"], fields["item_count"])
        return cls.parse({"fingerprint": shown, **fields}, where="eval_header")

    @property
    def line(self) -> str:
        """`EVAL_FINGERPRINT: source_hash|seed|item_count`."""
        return fingerprint_line(self.source_hash, self.seed, self.item_count)


class Scoreboard(Section):
    """One model on one evaluation set."""

    eval_header: EvalHeader
    overall: TierStats
    by_tier: dict[str, TierStats] = Field(description="by tier name; {}: no tiers")
    timestamp: str = Field(description="when it was made, UTC, ISO 8601")
    checkpoint_path: str = Field(description="the model")
    x_n_skipped: Count = Field(0, description="items left out because they had no negatives")
    x_encoder: str | None = Field(
        None, description="what encoded the texts: ORG/NAME@COMMIT, or a hash of its files"
    )
    x_scores: str | None = Field(None, description="file with the items' margins, beside this one")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_names(dict.fromkeys(self.by_tier, 0))
        found = {name: stats.n for name, stats in self.by_tier.items()}
        said, total = self.eval_header.tier_distribution, self.eval_header.item_count
        if found != said:
            raise ValueError(f"by_tier holds {found} items, tier_distribution says {said}")
        if self.overall.n != total:
            raise ValueError(f"overall.n is {self.overall.n}, item_count is {total}")
        if self.by_tier and sum(s.correct for s in self.by_tier.values()) != self.overall.correct:
            raise ValueError("the tiers' correct items do not add up to overall.correct")
        try:
            datetime.datetime.fromisoformat(self.timestamp)
        except ValueError:
            raise ValueError(f"timestamp {self.timestamp!r} is no ISO 8601 time") from None
        return self

    def __repr__(self) -> str:
        """One line: the model, the items and the share of them that is right."""
        tiers = f", {len(self.by_tier)} tiers" if self.by_tier else ""
        return (
            f"Scoreboard({cut(self.checkpoint_path, 60)!r}, {self.overall.n:,} items{tiers}, "
            f"accuracy {number(self.overall.accuracy)})"
        )

    def _repr_html_(self) -> str:
        """The tiers and all items, for a notebook."""
        table = self.table()
        names = [column.name for column in table.columns]
        rows = [
            [*map(Column.text, table.columns, row)]
            for row in table.rows
            if not isinstance(row, Line)
        ]
        return html_table(repr(self), names, rows, len(rows), "tiers")

    def table(self) -> Table:
        """The tiers and all items."""
        columns = (
            Column("tier", take=lambda one: one[0]),
            Column("items", "{:,}".format, take=lambda one: one[1].n),
            Column("accuracy", number, take=lambda one: one[1].accuracy),
            Column("mean margin", number, take=lambda one: one[1].mean_margin),
            Column("median margin", number, take=lambda one: one[1].median_margin),
            Column("mean rank", "{:.2f}".format, take=lambda one: one[1].mean_rank),
        )
        rows = {**self.by_tier, "all": self.overall}.items()
        return Table.of(rows, columns, caption="The tiers and all items")

    def sheet(self, figures: Sequence[tuple[str, Path]] = ()) -> Sheet:
        """The page of the scoreboard, with figures (caption, PNG) that were drawn of its model."""
        head, overall = self.eval_header, self.overall
        return Sheet(
            "GMB Crucible",
            f"Scoreboard of {self.checkpoint_path}",
            [
                f"{overall.correct:,} of {overall.n:,} items are right: their positive is nearer "
                f"than every negative."
            ],
            figures,
            [self.table()],
            [
                ("evaluation", head.fingerprint),
                ("version", head.version),
                *([("encoder", self.x_encoder)] if self.x_encoder else []),
            ],
        )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a JSON file.

        Raises:
            InputError: no such file, no JSON, or fields that contradict each other.
        """
        return cls.parse(read_json(path), where=str(path))

    def to_dict(self) -> dict[str, Any]:
        """The scoreboard as plain data; what is unknown is null."""
        return self.model_dump(mode="json")

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.to_dict())

    def item_scores(self, path: str | Path) -> ItemScores | None:
        """The item scores that the scoreboard in this file was made of; None where they are gone.

        Raises:
            InputError: there is a file of that name, but the scoreboard was not made of it.
        """
        place = Path(path).parent / (self.x_scores or "")
        if self.x_scores is None or not place.exists():
            return None
        scores, stats = ItemScores.read(place), self.overall
        mean, stored = margin_stats(scores.margin).mean_margin, stats.mean_margin
        found = (scores.n, int((scores.margin > 0).sum()), scores.origin.source_hash)
        if found == (stats.n, stats.correct, self.eval_header.source_hash) and (
            mean == stored or (stored is not None and np.isclose(mean or 0.0, stored, rtol=1e-9))
        ):
            return scores
        changed = f"has changed since {path} was made of it; make the scoreboard again"
        raise InputError(f"{place}: {changed}")


def tier_stats(margin: NDArray[np.float64], rank: NDArray[np.int64]) -> TierStats:
    """Statistics of given items: margins and strict ranks, [n] each."""
    found = margin_stats(margin).to_dict()
    return TierStats(
        **{name: found[name] for name in TierStats.model_fields if name in found},
        correct=int((margin > 0).sum()),
        accuracy=found["pass_rate"],
        mean_rank=float(rank.mean()) if len(margin) else None,
    )


def make_scoreboard(
    margin: ArrayLike,
    rank: ArrayLike,
    tiers: Sequence[str] | NDArray[np.str_] | None = None,
    *,
    checkpoint_path: str,
    timestamp: str | None = None,
    n_skipped: int = 0,
    scores: str | None = None,
    encoder: str | None = None,
    **header: Any,
) -> Scoreboard:
    """Sum up the items of an evaluation set.

    Args:
        margin, rank, tiers: of each item, [N]; the rank is strict, tiers may be None.
        checkpoint_path, timestamp: the model; UTC, ISO 8601, now by default.
        n_skipped, scores, encoder: as the fields of `Scoreboard` that begin with `x_`.
        header: `source_hash`, `content_hash`, `seed` and `version` (see `EvalHeader`).

    Raises:
        InputError: arrays of different lengths, an unknown tier, or an empty version.
    """
    margins, places = np.asarray(margin, dtype=np.float64), np.asarray(rank, dtype=np.int64)
    labels = np.asarray([] if tiers is None else tiers, dtype=np.str_)
    lengths = {len(margins), len(places), len(margins if tiers is None else labels)}
    if len(lengths) > 1:
        raise InputError(f"margins, ranks and tiers differ in length: {sorted(lengths)}")
    if not np.isfinite(margins).all():
        raise InputError("a margin is not finite; leave out items without one")
    check_names(np.unique(labels).tolist())
    by_tier = {
        name: tier_stats(margins[labels == name], places[labels == name])
        for name in (() if tiers is None else TIERS)
    }
    items = {name: stats.n for name, stats in by_tier.items()}
    data = {
        "eval_header": EvalHeader.of(**header, item_count=len(margins), tier_distribution=items),
        "overall": tier_stats(margins, places),
        "by_tier": by_tier,
        "timestamp": timestamp or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "checkpoint_path": checkpoint_path,
        "x_n_skipped": n_skipped,
        "x_encoder": encoder,
        "x_scores": scores,
    }
    return Scoreboard.parse(data, where="scoreboard")


def scoreboard_of(
    scores_path: str | Path,
    out: str | Path,
    *,
    version: str,
    seed: int = SEED,
    checkpoint: str | None = None,
    frozen: bool = True,
) -> Scoreboard:
    """The scoreboard of what `gmb crucible score` wrote, written to `out` as JSON.

    `version` is of the evaluation set, `checkpoint` the model: what made the similarities by
    default. A `frozen` set is held against the scoreboards in the folder of `out`.

    Raises:
        InputError: no item scores, `out` is no .json, or its folder holds a scoreboard of the same
            version whose items are gone or were changed here (spec: "append-only with versioned
            fingerprints").
    """
    if Path(out).suffix != ".json":
        raise InputError(f"{out}: scoreboards are written as .json; give such a name")
    scores = ItemScores.read(scores_path)
    origin = scores.origin
    made = make_scoreboard(
        scores.margin,
        scores.ranks.strict,
        scores.tiers,
        **origin.model_dump(include={"source_hash", "content_hash", "n_skipped"}),
        seed=seed,
        version=version,
        checkpoint_path=checkpoint or origin.encoder,
        encoder=origin.identity,
        scores=relative_path(scores_path, Path(out).parent),
    )
    if frozen:
        _refuse_shrunk(made, scores, scores_path, Path(out))
    made.write(out)
    made.sheet().write(Path(out).with_suffix(".html"))
    return made


def _refuse_shrunk(
    made: Scoreboard, scores: ItemScores, scores_path: str | Path, out: Path
) -> None:
    """Refuse a set that has lost items of a scoreboard of its version in the folder of `out`.

    A set that shares no item with that scoreboard's is another one, such as an organic holdout.
    Where the earlier item scores were written over, only the numbers of items are left to compare.
    """
    header = made.eval_header
    known = {
        path: board
        for path, board in _boards_in(out.parent).items()
        if board.eval_header.version == header.version
    }
    if header.content_hash in {board.eval_header.content_hash for board in known.values()}:
        return
    way_out = (
        f"a set may only grow under one version ({header.version}): keep them, or give another "
        "--eval-version"
    )
    hashes = set(scores.item_hashes)
    for path, board in known.items():
        n = board.overall.n
        try:
            before = board.item_scores(path)
        except InputError:  # something else was written in their place
            before = None
        if before is not None:
            lost = lost_items(zip(before.ids, before.item_hashes, strict=True), hashes)
            if lost and not hashes.isdisjoint(before.item_hashes):
                what = f"{len(lost):,} of its {n:,} items are gone or changed in {scores_path}"
                raise InputError.at(path, "not_append_only", f"{what} ({listed(lost)}); {way_out}")
        elif n > scores.n and (path == out or board.x_scores == made.x_scores):
            what = f"has {n:,} items, {scores_path} only {scores.n:,}"
            raise InputError.at(path, "not_append_only", f"{what}; {way_out}")


def _boards_in(folder: Path) -> dict[Path, Scoreboard]:
    """The scoreboards in a folder, by their files."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.is_file() and path.stat().st_size <= _LARGEST:
            with contextlib.suppress(InputError):
                found[path] = Scoreboard.read(path)
    return found


def relative_path(path: str | Path, folder: str | Path) -> str:
    """The path as a file in `folder` names it, so that both can be moved together."""
    return Path(os.path.relpath(Path(path).resolve(), Path(folder).resolve())).as_posix()
