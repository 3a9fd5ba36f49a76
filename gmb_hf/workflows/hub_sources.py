"""What of a run log came from the Hub: the runs themselves, and the data that they learned.

It stands in the log's metadata, `hub: {data: [...], runs: [...]}`, and in the results that are made
of the log. Each entry names a repository, its commit, a config and that config's fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from gmb_hf.runs import RunLog
from gmb_hf.runs.metadata import DIFFERS

HUB = "hub"
What = Literal["data", "runs"]

_WHAT: tuple[What, ...] = ("data", "runs")
_KEYS = ("repo", "revision", "config", "fingerprint")


def about(what: What, sources: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What metadata say of these sources."""
    return {HUB: {what: [dict(source) for source in sources]}}


def add_runs(log: RunLog, sources: Sequence[Mapping[str, str]]) -> None:
    """Note in the metadata of a log where its runs were pulled from."""
    held = log.metadata.get(HUB)
    kept = held if isinstance(held, dict) else {}
    log.metadata = {**log.metadata, HUB: {**kept, **about("runs", sources)[HUB]}}


def sources_of(log: RunLog) -> list[dict[str, str]]:
    """Each source once, as results have it: its entry, and `what` it is.

    Metadata is anybody's JSON: what has another form says nothing here.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for what in _WHAT:
        for source in _stated(log.metadata, what):
            if isinstance(source, dict) and all(isinstance(source.get(k), str) for k in _KEYS):
                values = {key: source[key] for key in _KEYS}
                found.setdefault((what, *values.values()), {"what": what, **values})
    return list(found.values())


def _stated(metadata: Mapping[str, Any], what: What) -> Iterator[Any]:
    """Where the parts of a log were joined, what each of them says."""
    held = metadata.get(HUB)
    lists = [held.get(what)] if isinstance(held, dict) else []
    differs = metadata.get(DIFFERS)
    if isinstance(differs, dict):
        for key in (f"{HUB}.{what}", HUB):
            said = differs.get(key)
            for one in said if isinstance(said, list) else ():
                lists.append(one.get(what) if isinstance(one, dict) else one)
    for entries in lists:
        if isinstance(entries, list):
            yield from entries
