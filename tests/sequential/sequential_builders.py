"""Sequential trainings of a second or less."""

from __future__ import annotations

from gmb_hf.protocol.sequential.config import SequentialConfig, preset
from gmb_hf.protocol.sequential.folder import SequentialFolder
from gmb_hf.protocol.sequential.run import train_group
from gmb_hf.training.variants import parse_variant

TINY = (
    "model.layers=1",
    "model.heads=2",
    "model.width=8",
    "model.mlp_width=8",
    "training.lr=1e-2",
    "training.checkpoint_every=5",
    "training.steps=10",
    "phases.stop_loss=none",
)


def tiny(suite: str, *changes: str) -> SequentialConfig:
    """A design of the smallest kind: the modular suite modulo 5, or the formal one."""
    prime = ("suite.prime=5",) if suite == "modular" else ()
    return preset("quick", suite).changed([*TINY, *prime, *changes])


def unheard(method, *about):
    """A progress bar that nobody sees."""


def trained(config, out, seeds, variant="dense", tell=unheard, **options) -> SequentialFolder:
    """The folder of a training that has come to its end."""
    folder = SequentialFolder(out)
    folder.claim(config)
    architecture = parse_variant(variant)
    for group in folder.pending_groups(config, architecture, seeds):
        train_group(config, architecture, group, folder, tell=tell, **options)
    folder.merge()
    return folder
