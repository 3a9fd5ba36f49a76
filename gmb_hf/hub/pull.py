"""Files of a repository of the Hub, at one commit, in the usual cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.files import clear_os_errors
from gmb_hf.hub.addresses import Address
from gmb_hf.hub.client import clear_hub_errors


@dataclass(frozen=True)
class Snapshot:
    """Files of a repository as they were at a commit.

    Attributes:
        repo_id: ORG/NAME.
        commit: the hash that the revision stood for.
        folder: in the cache of the Hub's client.
    """

    repo_id: str
    commit: str
    folder: Path


def pull(address: Address, patterns: Sequence[str], *, repo_type: str = "dataset") -> Snapshot:
    """Fetch the files that match, unless the cache has them; without a network, the cache alone.

    Args:
        address: its revision is resolved to a commit.
        patterns: of paths in the repository, e.g. `README.md` or `add_p97/*`.
        repo_type: "dataset" or "model".

    Raises:
        InputError: as `clear_hub_errors` names it, or the cache cannot be written to.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    with clear_hub_errors(str(address)), clear_os_errors(HF_HUB_CACHE):
        found = snapshot_download(
            address.repo_id,
            repo_type=repo_type,
            revision=address.revision,
            allow_patterns=list(patterns),
            library_name="gmb-hf",
        )
    return Snapshot(address.repo_id, Path(found).name, Path(found))
