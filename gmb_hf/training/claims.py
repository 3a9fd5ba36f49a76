"""A folder belongs to what it was begun with; anything else is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gmb_hf.files import write_text
from gmb_hf.training.config import first_difference
from gmb_hf.validation import InputError


def claim_folder(folder: Path, identity: Mapping[str, Any]) -> None:
    """Note in `folder/config.yaml` what is trained there, or check that it is the same.

    Args:
        folder: of the logs.
        identity: plain data that decide the logs.

    Raises:
        InputError: the folder holds runs of another config; the first difference is named.
    """
    path = folder / "config.yaml"
    if not path.exists():
        write_text(path, yaml.safe_dump(dict(identity), sort_keys=True))
        return
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not readable ({reason}); choose another folder") from error
    difference = first_difference(held if isinstance(held, dict) else {}, identity)
    if difference:
        raise InputError(
            f"{path}: this folder holds runs of another config ({difference}); choose another "
            "--out, or give the config that it was begun with"
        )
