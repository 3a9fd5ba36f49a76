"""A folder belongs to what it was begun with; anything else is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gmb_hf.files import write_text
from gmb_hf.training.config import first_difference
from gmb_hf.validation import InputError


def claim_folder(
    folder: Path,
    identity: Mapping[str, Any],
    *,
    name: str = "config.yaml",
    noted: Mapping[str, Any] | None = None,
) -> None:
    """Note in a file of the folder what is trained there, or check that it is the same.

    Args:
        folder: of the logs.
        identity: plain data that decide the logs.
        name: of the file.
        noted: what else the file says when it is written first, under other keys; it may differ.

    Raises:
        InputError: the folder holds runs of another config; the first difference is named.
    """
    path, noted = folder / name, noted or {}
    if not path.exists():
        write_text(path, yaml.safe_dump({**noted, **identity}, sort_keys=True))
        return
    held = {key: value for key, value in read_claim(path).items() if key not in noted}
    difference = first_difference(held, identity)
    if difference:
        raise InputError(
            f"{path}: this folder holds runs of another config ({difference}); choose another "
            "--out, or give the config that it was begun with"
        )


def read_claim(path: Path) -> dict[str, Any]:
    """What `claim_folder` wrote to this file; empty where it holds something else.

    Raises:
        InputError: the file is missing, or no YAML.
    """
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name the folder of a run") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not readable ({reason}); choose another folder") from error
    return held if isinstance(held, dict) else {}
