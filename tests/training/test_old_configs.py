"""Folders of earlier versions go on: their configs are read, equal today's, and hash the same."""

import json
from pathlib import Path

import pytest
import yaml

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.incontext import probes
from gmb_hf.protocol.language.config import LanguageConfig, language_preset
from gmb_hf.protocol.scaling.grid import ScalingConfig
from gmb_hf.protocol.scaling.source import parse_source
from gmb_hf.protocol.sequential import config as sequential
from gmb_hf.training.config import RunConfig
from gmb_hf.training.folder import check_config
from gmb_hf.training.presets import preset
from gmb_hf.training.settings import config_hash

OLD = json.loads((Path(__file__).parents[1] / "data/old_configs.json").read_text())


def today(old):
    """The identity of the same config by today's code, and its hash."""
    changes = old.get("set", [])
    if old["kind"] == "run":
        hand = old.get("hand")
        config = RunConfig.from_dict(hand) if hand else preset(old["preset"]).changed(changes)
        return config.training_identity(), config.training_hash()
    if old["kind"] in ("sequential", "incontext"):
        made = {"sequential": sequential.preset, "incontext": probes.preset}[old["kind"]]
        config = made(old["preset"], old["of"]).changed(changes)
        return {"preset": config.preset, "design": config.design()}, config.hash()
    if old["kind"] == "language":
        identity = language_preset(old["preset"]).changed(changes).identity()
    elif old["kind"] == "scaling":
        identity = {"training": dict(ScalingConfig().changed(changes).training)}
    else:
        source = parse_source(old["text"])
        assert source.text == old["says"]
        identity = {"source": dict(source)}
    return identity, config_hash(identity)


@pytest.mark.parametrize("old", OLD, ids=lambda old: f"{old['kind']}-{old['hash'][:8]}")
def test_a_folder_of_an_earlier_version_goes_on(old, tmp_path):
    identity, found = today(old)
    assert found == old["hash"]
    path = tmp_path / "config.yaml"
    path.write_text(old["config.yaml"])
    check_config(tmp_path, identity)
    # Today's code writes the very same file, and refuses the folder for another config.
    path.unlink()
    check_config(tmp_path, identity)
    assert path.read_text() == old["config.yaml"]
    with pytest.raises(InputError, match="holds runs of another config"):
        check_config(tmp_path, {**identity, "model": {"layers": 99}})


@pytest.mark.parametrize("old", OLD, ids=lambda old: f"{old['kind']}-{old['hash'][:8]}")
def test_a_config_of_an_earlier_version_is_read(old):
    written = yaml.safe_load(old["config.yaml"])
    if old["kind"] == "run":
        assert RunConfig.from_dict(written).training_hash() == old["hash"]
        assert RunConfig.from_dict(old["whole"]).training_hash() == old["hash"]
    elif old["kind"] in ("sequential", "incontext"):
        kinds = {"sequential": sequential.SequentialConfig, "incontext": probes.InContextConfig}
        config = kinds[old["kind"]].from_dict({"preset": "old", **written["design"]})
        assert config.hash() == old["hash"]
    elif old["kind"] == "language":
        assert config_hash(LanguageConfig.from_dict(written).identity()) == old["hash"]
