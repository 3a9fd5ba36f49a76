"""Pretrained models: their files, in a folder or in a repository of the Hub at one commit.

Weights are safetensors inside the folder, never pickles. A model of the Hub is known by its commit,
one in a folder by a hash of every file that is loaded. Those that this package saved have their
hash beside them, by which bytes that changed since are found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import STREAMED, check_file, lies_inside, parse_json, read_text, write_text
from gmb_hf.base.fingerprints import content_hash, source_hash
from gmb_hf.base.repositories import Address, pull

_OWN = ("grokking_transformer",)  # their code comes with this package
_CONFIGS = ("config.json", "tokenizer_config.json")
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_HASH = ".safetensors.sha256"
_TOKENIZER = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "bpe.codes",
)
_MODEL = (*_CONFIGS, "*.safetensors", "*.safetensors.index.json", f"*{_HASH}", *_TOKENIZER)
_ENCODER = ("*.json", "*.txt", "*.safetensors", f"*{_HASH}", *_TOKENIZER)
_CODE = "*.py"
_SAVE = "save it again with save_pretrained"
_PICKLED = f"holds no weights as safetensors, and pickles are not loaded; {_SAVE}"


@dataclass(frozen=True)
class ModelSource:
    """Where a model, tokenizer or encoder lies, as it was named and as a folder.

    Its identity is `ORG/NAME@COMMIT` for a repository of the Hub, for a folder `sha256:` and the
    hash of its files; `code` says whether code that comes with it is run.
    """

    place: str
    folder: Path
    identity: str
    code: bool = False

    def config(self) -> dict[str, Any]:
        """What `config.json` holds."""
        held: dict[str, Any] = _json(self.folder / "config.json", self.place)
        return held


def find_model(
    place: str, *, revision: str | None = None, trust_remote_code: bool | None = False
) -> ModelSource:
    """The files of a model, in a folder or fetched from a repository of the Hub.

    Args:
        place: a folder, or a repository, which may be NAME@REV.
        revision: branch, tag or commit of a repository.
        trust_remote_code: let code that comes with the model run; None where the caller cannot.

    Raises:
        InputError: there is no such folder or repository, it holds no model, its weights are not
            safetensors inside the folder, or it brings code and nobody asked for that.
    """
    folder = Path(place).expanduser()
    if folder.exists():
        if revision is not None:
            raise InputError(f"--revision {revision}: {place} is a folder, which has none")
        if not (folder / "config.json").is_file():
            hint = "save_pretrained writes one"
            raise InputError(f"{place}: holds no model (no config.json); {hint}")
        code = _runs_code(folder, place, trust_remote_code)
        found = {path for name in (*_CONFIGS, *_TOKENIZER) for path in folder.glob(name)}
        programs = folder.rglob(_CODE) if code else folder.glob(_CODE)
        files = {*found, *_weights(folder, place), *programs}
        return ModelSource(place, folder, _identity(folder, place, files), code)
    address = _address(place, revision)
    first = pull(address, _CONFIGS, repo_type="model")
    if not (first / "config.json").is_file():
        raise InputError(f"{place}: the Hub has it, but it holds no model (no config.json)")
    code = _runs_code(first, place, trust_remote_code)
    # The same commit, whatever the branch stands for by now.
    at_commit = Address(address.repo_id, first.name)
    patterns = (*_MODEL, *((_CODE,) if trust_remote_code else ()))
    folder = pull(at_commit, patterns, repo_type="model")
    _weights(folder, place)
    return ModelSource(place, folder, str(at_commit), code)


def find_tokenizer(place: str) -> ModelSource:
    """The files of a tokenizer, in a folder or fetched from a repository (NAME or NAME@REV).

    Raises:
        InputError: there is no such folder or repository, or it brings code of its own.
    """
    return _without_code(place, (*_CONFIGS, *_TOKENIZER))


def find_encoder(place: str, *, cache_only: bool = False) -> ModelSource:
    """The files of a model of sentence-transformers, in a folder or fetched from a repository.

    With `cache_only`, a repository is what was fetched of it before.

    Raises:
        InputError: as `find_model`; or one of its modules is none of sentence-transformers' own.
    """
    found = _without_code(place, _ENCODER, cache_only)
    folder, listed = found.folder, found.folder / "modules.json"
    modules = _json(listed, place, list) if listed.is_file() else [{}]
    for module in modules:
        if not isinstance(module, dict):
            raise InputError(f"{place}: modules.json is no list of modules with their paths")
        path, kind = str(module.get("path", "")), str(module.get("type", ""))
        if kind and not kind.startswith("sentence_transformers."):
            raise InputError(
                f"{place}: brings code of its own (modules.json has {kind}), which is not run; "
                "choose another encoder"
            )
        _check_inside(folder, path, place, "modules.json")
        if kind.endswith(".Transformer") or not kind:
            _weights(folder / path, place)
    # Parts that are no transformers fall back on a pickle where there are no safetensors.
    for pickle in folder.rglob("pytorch_model*.bin"):
        if not any(pickle.parent.glob("*.safetensors")):
            raise InputError(f"{place}: {_PICKLED}")
    if found.identity.startswith("sha256:"):
        files = {path for name in _ENCODER for path in folder.rglob(name)}
        return ModelSource(place, folder, _identity(folder, place, files))
    return found


def _without_code(place: str, patterns: Iterable[str], cache_only: bool = False) -> ModelSource:
    """A source of which no code is run: a folder as it is, a repository by these patterns."""
    folder = Path(place).expanduser()
    if folder.exists():
        _runs_code(folder, place, None)
        files = {path for name in patterns for path in folder.glob(name)}
        return ModelSource(place, folder, _identity(folder, place, files))
    address = _address(place)
    folder = pull(address, list(patterns), repo_type="model", cache_only=cache_only)
    _runs_code(folder, place, None)
    return ModelSource(place, folder, f"{address.repo_id}@{folder.name}")


def _address(place: str, revision: str | None = None) -> Address:
    """The repository that a place names, if it is no folder."""
    if not place.strip() or place.startswith((".", "/", "~")) or place.count("/") > 1:
        raise InputError(f"{place}: there is no such folder")
    name, _, said = place.partition("@")
    if said and revision is not None:
        raise InputError(f"--revision {revision}: {place} names a revision already; give one")
    return Address(name, revision or said or "main")


def _runs_code(folder: Path, place: str, trusted: bool | None) -> bool:
    """Whether code that comes with a model is run; code that nobody trusts is refused."""
    held = {name: _json(folder / name, place) for name in _CONFIGS if (folder / name).is_file()}
    maps = {
        name: config["auto_map"]
        for name, config in held.items()
        if config.get("auto_map") and config.get("model_type") not in _OWN
    }
    for name, classes in maps.items():
        if not trusted:
            way_out = "which would run here; read it, and give --trust-remote-code if you trust it"
            raise InputError(
                f"{place}: brings code of its own ({name} has auto_map), "
                f"{'which is not run; choose another' if trusted is None else way_out}"
            )
        if "--" in json.dumps(classes):
            raise InputError(
                f"{place}: runs code of another repository ({name} has auto_map with --), at no "
                "fixed commit; copy that code beside the model"
            )
    return bool(trusted) and held.get("config.json", {}).get("model_type") not in _OWN


def _weights(folder: Path, place: str) -> set[Path]:
    """The files that hold the weights, and their index; an `InputError` for what is not loaded."""
    config = _json(folder / "config.json", place)
    if config.get("transformers_weights") is not None:
        raise InputError(
            f"{place}: config.json names other weights (transformers_weights) than {_WEIGHTS}; "
            f"{_SAVE}"
        )
    if (folder / "adapter_config.json").is_file():
        raise InputError(
            f"{place}: holds an adapter (adapter_config.json), whose base model lies elsewhere; "
            "merge both and save the whole model"
        )
    if (folder / _WEIGHTS).is_file():
        _check_weights(folder / _WEIGHTS, place)
        return {folder / _WEIGHTS}
    if not (folder / _INDEX).is_file():
        raise InputError(f"{place}: {_PICKLED}")
    named = _json(folder / _INDEX, place).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise InputError(f"{place}: {_INDEX} has no weight_map with the files of the weights")
    for name in sorted(set(map(str, named.values()))):
        if not name.endswith(".safetensors"):
            raise InputError(
                f"{place}: {_INDEX} names {name}, which is no safetensors file, and pickles are "
                f"not loaded; {_SAVE}"
            )
        _check_inside(folder, name, place, _INDEX)
        if not (folder / name).is_file():
            raise InputError(f"{place}: {name}, which {_INDEX} names, is missing; {_SAVE}")
        _check_weights(folder / name, place)
    return {folder / _INDEX, *(folder / str(name) for name in named.values())}


def write_hashes(folder: Path) -> None:
    """Write the SHA-256 of each file of weights in a folder beside it; `sha256sum -c` reads it.

    Whatever saves a model calls this; a model without, as transformers saves it, loads unchecked.
    """
    for path in folder.glob("*.safetensors"):
        write_text(path.with_suffix(_HASH), f"{source_hash(path)}  {path.name}\n")


def _check_weights(path: Path, place: str) -> None:
    """Refuse weights whose bytes changed since they were saved; without a hash they may have."""
    check_file(path, most=STREAMED)
    note = path.with_suffix(_HASH)
    if note.exists():
        found, said = source_hash(path), read_text(note).split()
        if said[:1] != [found]:
            raise InputError(
                f"{place}: {path.name} was damaged or changed after it was saved: its SHA-256 is "
                f"not the one in {note.name}; copy both again, or delete {note.name} if you "
                "changed the weights yourself"
            )


def _check_inside(folder: Path, name: str, place: str, by: str) -> None:
    """Refuse a file or folder, named by a file of a model, that lies outside the model's folder."""
    if not lies_inside(folder, name):
        raise InputError(
            f"{place}: {by} names {name}, which lies outside the folder; nothing is read there"
        )


def _identity(folder: Path, place: str, files: Iterable[Path]) -> str:
    """A hash of the names and bytes of files in a folder."""
    named = {path.relative_to(folder).as_posix(): path for path in files if path.is_file()}
    for name in named:
        _check_inside(folder, name, place, "the folder")
    return f"sha256:{content_hash([name, source_hash(named[name])] for name in sorted(named))}"


def _json(path: Path, place: str, kind: type = dict) -> Any:
    # Not as strictly as our own files: the configs of some models hold Infinity.
    try:
        held = parse_json(read_text(path), where="", foreign=True)
    except (OSError, ValueError) as error:
        reason = (str(error).strip(": ") or type(error).__name__).splitlines()[0]
        raise InputError(f"{place}: {path.name} could not be read: {reason}") from None
    if not isinstance(held, kind):
        what = "object" if kind is dict else "list"
        raise InputError(f"{place}: {path.name} holds no JSON {what}")
    return held
