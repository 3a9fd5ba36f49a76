"""What the Crucible modules of `evaluate` call: flat dictionaries of scalars with stable names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, right_call, unknown
from gmb_hf.crucible import margins
from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.compare import OVERALL, paired_tests
from gmb_hf.crucible.exposure import Pool, expected_exposures
from gmb_hf.crucible.scoreboard import SEED, make_scoreboard

Flat = dict[str, Any]
KEYWORDS: dict[str, dict[str, Any]] = {}
"""The keywords of each metric besides its data, with their defaults."""

_CALLS: dict[str, str] = {}
_ITEMS = "predictions=[[0.9, 0.2, 0.4], ...], references=[0, ...]"


def _metric(
    arguments: str, **keywords: Any
) -> Callable[[Callable[..., Flat]], Callable[..., Flat]]:
    """Register a metric with the arguments of a right call, which errors show, and its keywords."""

    def register(function: Callable[..., Flat]) -> Callable[..., Flat]:
        name, data = f"crucible_{function.__name__}", inspect.signature(function).parameters
        KEYWORDS[name], _CALLS[name] = keywords, arguments

        @functools.wraps(function)
        def call(*values: Any, **named: Any) -> Flat:
            check(name, {key: value for key, value in named.items() if key not in data})
            with right_call(name, arguments):
                return function(*values, **{**keywords, **named})

        return call

    return register


def check(metric: str, settings: Mapping[str, Any]) -> None:
    """Refuse keywords that a metric does not have; raises InputError."""
    with right_call(metric, _CALLS[metric]):
        for name in settings:
            if name not in KEYWORDS[metric]:
                raise unknown("keyword", name, KEYWORDS[metric])


def given(name: str, value: Any) -> Any:
    """The value of an argument that must be there; raises InputError."""
    if value is None:
        raise InputError(f"{name} is missing")
    return value


def listed(name: str, value: Any) -> list[Any]:
    """The value of an argument with an entry for each item; raises InputError."""
    if isinstance(given(name, value), (str, bytes)) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} must be a list with one entry per item, got {value!r}")
    return list(value)


def _tiers(settings: Mapping[str, Any]) -> list[Any] | None:
    """The tier of each item, where tiers were given."""
    return None if settings["tiers"] is None else listed("tiers", settings["tiers"])


@_metric(_ITEMS, ids=None, empty="error", return_per_item=False)
def margin(predictions: Any, references: Any, **settings: Any) -> Flat:
    """Margins: `mean_margin`, `mean_danger`, three quantiles, `pass_rate`, `tie_rate`, `n`.

    Args:
        predictions: similarity of each candidate to the item's anchor, a list per item.
        references: place of the positive among them, from 0.
        settings: `ids`; `empty`, "error" or "skip" (items without negatives are left out, and
            `n_skipped` counts them); `return_per_item` adds `margins`.
    """
    items = _items(predictions, references, settings)
    found = margins.margins(items)
    flat = margins.margin_stats(found, n_skipped=items.n_skipped).to_dict()
    return _finished(flat, settings, {"margins": found})


@_metric(_ITEMS, ids=None, empty="error", hits=margins.HITS, return_per_item=False)
def rank(predictions: Any, references: Any, **settings: Any) -> Flat:
    """Ranks: three means, `adjusted_mean_rank_index`, `chance_pass_rate`, `mrr`, `hits@k`.

    Args:
        predictions, references: as in `margin`.
        settings: as in `margin`, and `hits`, the depths k. `return_per_item` adds `ranks`,
            `ranks_realistic` and `ranks_pessimistic`.
    """
    items, hits = _items(predictions, references, settings), settings["hits"]
    found = margins.ranks(items)
    if not isinstance(hits, (list, tuple)):
        raise InputError(f"hits must be a list of depths such as [1, 5], got {hits!r}")
    flat = margins.rank_stats(found, hits=hits, n_skipped=items.n_skipped).to_dict()
    del flat["n"]  # crucible_margin has it, and the two are combined
    names = {"ranks": "strict", "ranks_realistic": "realistic", "ranks_pessimistic": "pessimistic"}
    return _finished(flat, settings, {key: getattr(found, name) for key, name in names.items()})


@_metric(
    f"{_ITEMS}, eval_file='eval.jsonl', version='v1'",
    **dict.fromkeys(("eval_file", "source_hash", "content_hash", "tiers", "version")),
    seed=SEED,
    checkpoint_path="",
    timestamp=None,
)
def scoreboard(predictions: Any, references: Any, **settings: Any) -> Flat:
    """A scoreboard of the spec's schema: `eval_header`, `overall`, `by_tier`, and what it is of.

    Args:
        predictions, references: as in `margin`, in the order of the evaluation set.
        settings: `version` and either `eval_file`, whose bytes give the fingerprint, whose items
            the content hash and, where it has them, the tiers; or `source_hash`. `tiers`, a name
            an item; `seed` [42], `checkpoint_path`, `timestamp`, `content_hash`.
    """
    if not settings["version"]:
        raise InputError("version is missing; name the version of the evaluation set")
    items = _items(predictions, references, {})
    labels: Sequence[str] | None = _tiers(settings)
    hashes = {name: settings[name] for name in ("source_hash", "content_hash")}
    if settings["eval_file"] is not None:
        file = read_bundles(settings["eval_file"])
        if len(file.bundles) != items.n:
            raise InputError(
                f"eval_file {file.path} holds {len(file.bundles)} items, predictions {items.n}; "
                "give all of them, in the order of the file"
            )
        hashes = {"source_hash": file.source_hash, "content_hash": file.content_hash}
        labels = file.tiers if labels is None else labels
    elif not hashes["source_hash"]:
        raise InputError(
            "eval_file is missing: the fingerprint is that of the evaluation set's file; name it, "
            "or give its source_hash"
        )
    about: Flat = {name: str(settings[name]) for name in ("version", "checkpoint_path")}
    about |= {name: settings[name] for name in ("seed", "timestamp")}
    strict = margins.ranks(items).strict
    return make_scoreboard(margins.margins(items), strict, labels, **hashes, **about).to_dict()


@_metric(
    "predictions1=[[0.9, 0.2, 0.4], ...], predictions2=[[0.8, 0.3, 0.1], ...], references=[0, ...]",
    tiers=None,
    ids=None,
    permutations=9999,
    seed=0,
)
def compare(predictions1: Any, predictions2: Any, references: Any, **settings: Any) -> Flat:
    """Paired tests of two models on the same items, second - first.

    `n`, `pass_rate_difference`, `mean_margin_difference`, `only_first`, `only_second`,
    `p_mcnemar`, `p_permutation`; with `tiers` the same again for each tier that has items, as
    `p_mcnemar@tier3_adversarial` and so on, and `p_..._adjusted` (Holm over whole and tiers).

    Args:
        predictions1, predictions2: similarities as in `margin`, of either model.
        references: place of the positive, from 0.
        settings: `tiers`, `ids`, `permutations` [9999], `seed` [0].
    """
    first = _items(predictions1, references, settings, name="predictions1")
    second = _items(predictions2, references, settings, name="predictions2")
    for place in np.flatnonzero(first.counts != second.counts).tolist():
        raise InputError(
            f"predictions2, item {second.names()[place]!r}: {second.counts[place]} candidates, "
            f"but {first.counts[place]} in predictions1; both must be of the same ones"
        )
    flips = {name: settings[name] for name in ("permutations", "seed")}
    found = (margins.margins(first), margins.margins(second))
    tests = paired_tests(*found, _tiers(settings), **flips)
    flat: Flat = {}
    for test in tests:
        at = "" if test.group == OVERALL else f"@{test.group}"
        only_first, only_second = test.mcnemar.only_first, test.mcnemar.only_second
        flat |= {
            f"n{at}": test.n,
            f"pass_rate_difference{at}": (only_second - only_first) / test.n,
            f"mean_margin_difference{at}": test.permutation.difference,
            f"only_first{at}": only_first,
            f"only_second{at}": only_second,
            f"p_mcnemar{at}": test.mcnemar.p_value,
            f"p_permutation{at}": test.permutation.p_value,
        }
        if len(tests) > 1:
            flat[f"p_mcnemar_adjusted{at}"] = test.mcnemar_adjusted
            flat[f"p_permutation_adjusted{at}"] = test.permutation_adjusted
    return flat


@_metric(
    "data=['legacy', 'organic'], sizes=[454, 1200], ratios=[0.75, 0.25], steps=10000, "
    "batch_size=32, probability=0.1",
    steps=None,
    batch_size=None,
    probability=None,
)
def exposure(data: Any, sizes: Any, ratios: Any, **settings: Any) -> Flat:
    """Expected exposures of each item, pool by pool.

    `expected@NAME`, `status@NAME`, `draws@NAME`, `low@NAME` and `high@NAME` (5% and 95% quantile of
    an item's exposures) for each pool, and `status`, the worst of them.

    Args:
        data: names of the pools.
        sizes: how many items each holds.
        ratios: share of the draws that goes to each; they add up to 1.
        settings: `steps`, `batch_size` and `probability`, all required.
    """
    lists = {"data": data, "sizes": sizes, "ratios": ratios}
    names, counts, shares = (list(given(name, value)) for name, value in lists.items())
    if not len(names) == len(counts) == len(shares):
        what = f"there are {len(counts)} sizes and {len(shares)} ratios"
        hint = "give one of each for every pool"
        raise InputError(f"{len(names)} pools are named, but {what}; {hint}")
    whole = (float, np.integer)  # whole numbers that a float64 holds are sizes, too
    sizes = [int(n) if isinstance(n, whole) and n == n // 1 else n for n in counts]
    pools = list(map(Pool, map(str, names), sizes, shares))
    wanted = {name: given(name, value) for name, value in settings.items()}
    found = expected_exposures(**wanted, pools=pools)
    keys = ("expected", "status", "draws", "low", "high")
    flat: Flat = {f"{key}@{pool.name}": getattr(pool, key) for pool in found for key in keys}
    worst = min((pool.expected, pool.status) for pool in found if pool.expected is not None)
    return {**flat, "status": worst[1]}


def _items(
    predictions: Any, references: Any, settings: Mapping[str, Any], *, name: str = "predictions"
) -> margins.Similarities:
    rows, places = listed(name, predictions), listed("references", references)
    if not rows:
        raise InputError(f"{name} is empty; give the similarities of at least one item")
    if not hasattr(rows[0], "__len__"):
        what = "a list of similarities per item, got numbers; [[...]] is one item"
        raise InputError(f"{name} must be {what}")
    if len(rows) != len(places):
        what = f"{len(rows)} items, but references {len(places)}"
        raise InputError(f"{name} holds {what}; give the place of the positive for each")
    ids, empty = settings.get("ids"), settings.get("empty", "error")
    try:
        return margins.Similarities.of_lists(rows, places, ids, empty=empty)
    except InputError as error:
        argument = "references" if margins.PLACE in str(error) else name
        raise InputError(f"{argument}, {error}") from None


def _finished(
    flat: Flat, settings: Mapping[str, Any], per_item: Mapping[str, NDArray[Any]]
) -> Flat:
    """Leave out a count that can only be 0; add the lists per item where they are wanted."""
    if settings["empty"] != "skip":
        del flat["n_skipped"]
    if settings["return_per_item"]:
        flat |= {name: values.tolist() for name, values in per_item.items()}
    return flat
