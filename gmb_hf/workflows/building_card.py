"""The card of a dataset: what `load_dataset` and the Hub read in it, and a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.hub.card_fingerprints import CARD, KEY, CardFingerprint
from gmb_hf.hub.cards import render_card
from gmb_hf.preregistration.documents import parse_yaml
from gmb_hf.validation import InputError, choose
from gmb_hf.workflows.building_content import Content

if TYPE_CHECKING:
    from gmb_hf.workflows.building import About, Config

PUBLIC_DOMAIN = "public-domain"
"""The licence of a text that nobody owns; the Hub has no name for it."""

_OTHER = "other"


def card_text(
    configs: Sequence[Config],
    about: About,
    contents: Mapping[str, Content],
    entries: Mapping[str, CardFingerprint],
) -> str:
    """The README.md of a dataset."""
    licenses = [config.license for config in configs]
    known = list(dict.fromkeys(_OTHER if name == PUBLIC_DOMAIN else name for name in licenses))
    header = {
        "pretty_name": about.title,
        "license": known[0] if len(known) == 1 else known,
        **({"license_name": PUBLIC_DOMAIN} if _OTHER in known else {}),
        "tags": list(about.tags),
        "configs": [
            {
                "config_name": config.name,
                **({"default": True} if number == 0 else {}),
                "data_files": [
                    {"split": split, "path": f"{config.name}/{split}-*"} for split in config.splits
                ],
            }
            for number, config in enumerate(configs)
        ],
        "dataset_info": [_info(config.name, contents[config.name]) for config in configs],
        "gmb_license": {config.name: config.license for config in configs},
        KEY: {name: entry.entry() for name, entry in entries.items()},
    }
    first = configs[0]
    return render_card(
        "dataset",
        header,
        title=about.title,
        summary=about.summary,
        configs=[
            {
                "name": config.name,
                "splits": ", ".join(
                    f"{split} {rows:,}" for split, rows in contents[config.name].rows.items()
                ),
                "license": config.license,
                "hash": entries[config.name].shown,
                "summary": config.summary,
            }
            for config in configs
        ],
        example={"name": first.name, "split": list(first.splits)[-1]},
        data_version=entries[first.name].version,
        item=first.item,
    )


def patterns_of(header: Mapping[str, Any], config: str, *, where: str) -> dict[str, list[str]]:
    """Where a config's files lie, by the card's header: split -> patterns of paths.

    Raises:
        InputError: the card does not know the config, or its `configs:` are of another form.
    """
    try:
        known = {str(entry["config_name"]): entry["data_files"] for entry in header["configs"]}
        choose("config", config, list(known), where=where)
        return {str(files["split"]): _listed(files["path"]) for files in known[config]}
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: `configs:` is not a list of config_name and data_files with split and "
            "path; write the card anew with `gmb data build`"
        ) from None


def shards_of(header: Mapping[str, Any], config: str, folder: Path) -> dict[str, list[Path]]:
    """The Parquet files of a config in a folder, by the card's header: split -> files in order.

    Raises:
        InputError: as `patterns_of`.
    """
    return {
        split: [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        for split, patterns in patterns_of(header, config, where=str(folder / CARD)).items()
    }


def _listed(patterns: Any) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _info(name: str, content: Content) -> dict[str, Any]:
    """What `load_dataset` checks: columns and rows of each split."""
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    splits = SplitDict()
    for split, rows in content.rows.items():
        splits.add(SplitInfo(split, num_bytes=content.nbytes[split], num_examples=rows))
    # Without its sizes `datasets` cannot push a split of this config again.
    info = DatasetInfo(
        features=Features.from_arrow_schema(content.schema),
        splits=splits,
        download_size=content.stored,
        dataset_size=sum(content.nbytes.values()),
    )
    data = DatasetCardData()
    DatasetInfosDict({name: info}).to_dataset_card_data(data)
    found = parse_yaml(data.to_yaml(), where=name)["dataset_info"]
    return {"config_name": name, **found}
