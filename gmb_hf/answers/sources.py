"""Models that somebody names: a folder, or a repository of the Hub at one commit.

Nothing of a repository is run unless it is asked for: a model that brings code of its own is
refused before its weights are fetched. Weights are safetensors, never pickles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from gmb_hf.fingerprints import content_hash, source_hash
from gmb_hf.validation import InputError

_OWN = ("grokking_transformer",)  # their code comes with this package
_CONFIGS = ("config.json", "tokenizer_config.json")
_FILES = (
    *_CONFIGS,
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
)
_CODE = "*.py"
FLAG = "--trust-remote-code"


@dataclass(frozen=True)
class Source:
    """Where a model lies, and by what it is known.

    Attributes:
        place: as it was named.
        folder: that holds its files.
        identity: for a repository of the Hub `ORG/NAME@COMMIT`; for a folder `sha256:` and the hash
            of its config, weights and tokenizer.
        code: whether code that comes with it is run.
    """

    place: str
    folder: Path
    identity: str
    code: bool = False

    def config(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return _json(self.folder / "config.json", self.place)


def find_model(
    place: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> Source:
    """The files of a model, fetched where they are not here.

    Args:
        place: a folder, or a repository of the Hub.
        revision: branch, tag or commit of a repository.
        trust_remote_code: let code that comes with the model run.

    Raises:
        InputError: there is no such folder or repository, it holds no model, its weights are not
            safetensors, or it brings code and nobody asked for that.
    """
    folder = Path(place).expanduser()
    if folder.exists():
        if revision is not None:
            raise InputError(f"--revision {revision}: {place} is a folder, which has none")
        if not (folder / "config.json").is_file():
            raise InputError(
                f"{place}: holds no model (no config.json); save_pretrained writes one"
            )
        _refuse_code(folder, place, trust_remote_code)
        _require_safetensors(folder, place)
        return _source(place, folder, f"sha256:{_hash_of(folder)}", trust_remote_code)
    if not place.strip() or place.startswith((".", "/", "~")) or place.count("/") > 1:
        raise InputError(f"{place}: there is no such folder")
    return _pulled(place, revision or "main", trust_remote_code)


def _pulled(name: str, revision: str, trusted: bool) -> Source:
    from gmb_hf.hub.addresses import Address
    from gmb_hf.hub.pull import pull

    address = Address(name, revision)
    first = pull(address, _CONFIGS, repo_type="model")
    if not (first.folder / "config.json").is_file():
        raise InputError(f"{name}: the Hub has it, but it holds no model (no config.json)")
    _refuse_code(first.folder, name, trusted)
    patterns = (*_FILES, *((_CODE,) if trusted else ()))
    # The same commit, whatever the branch stands for by now.
    whole = pull(Address(name, first.commit), patterns, repo_type="model")
    _require_safetensors(whole.folder, name)
    return _source(name, whole.folder, f"{name}@{first.commit}", trusted)


def _source(place: str, folder: Path, identity: str, trusted: bool) -> Source:
    found = Source(place, folder, identity)
    own = found.config().get("model_type") in _OWN
    return replace(found, code=trusted and not own)


def _refuse_code(folder: Path, place: str, trusted: bool) -> None:
    if trusted:
        return
    for name in _CONFIGS:
        path = folder / name
        held = _json(path, place) if path.is_file() else {}
        if held.get("auto_map") and held.get("model_type") not in _OWN:
            raise InputError(
                f"{place}: brings code of its own ({name} has auto_map), which would run here; "
                f"read it, and give {FLAG} if you trust it"
            )


def _require_safetensors(folder: Path, place: str) -> None:
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{place}: holds no weights as safetensors, and pickles are not loaded; save it again "
            "with save_pretrained"
        )


def _hash_of(folder: Path) -> str:
    return content_hash([path.name, source_hash(path)] for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in (*_FILES, _CODE)):
            yield path


def _json(path: Path, place: str) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{place}: {path.name} could not be read: {reason}") from None
    if not isinstance(held, dict):
        raise InputError(f"{place}: {path.name} holds no JSON object")
    return held
