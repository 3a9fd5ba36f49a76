"""What panels can be built: a recipe each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


@dataclass(frozen=True)
class Recipe:
    """How a panel is made.

    Attributes:
        name: letters, digits and hyphens; also its folder.
        asks: the question that it answers, without its question mark.
        config: what is trained, with its explore and its held-out seeds.
        locks: how many locks may look at its held-out part.
        license: of its logs, as the Hub names it.
        credit: whose logs they are, a sentence; empty for those that are trained.
        single: keep them in float32, which halves the files.
    """

    name: str
    asks: str
    config: Callable[[], RunConfig]
    locks: int = 200
    license: str = "apache-2.0"
    credit: str = ""
    single: bool = True


def _panel(explore: str, evaluate: str, *changes: str) -> Callable[[], RunConfig]:
    """The law of `standard`, its seeds, with some fields changed and all cheap signals recorded."""

    def config() -> RunConfig:
        from gmb_hf.training.presets import preset

        seeds = (f"seeds.explore={explore}", f"seeds.evaluate={evaluate}")
        return preset("standard").changed((*seeds, "training.observables=published", *changes))

    return config


def _published_runs() -> RunConfig:
    from gmb_hf.training.presets import preset

    return preset("reference").judged_by(metric="acc_test")


# Half of the rows of an operation that commutes are mirror images of the other half. Split apart,
# they are told by each other, and the model generalises as it memorises.
_COMMUTES = ("task.keep_pairs_together=true",)

# No seed is of two panels, of a preset, or of the search for the configuration (from 900,000 on).
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "quick-29",
            "Which scores predict grokking of subtraction modulo 29, with few runs",
            _panel("100000:100064", "110000:110064"),
        ),
        Recipe(
            "sub-29",
            "Which scores predict grokking of subtraction modulo 29, with runs enough for a fit",
            _panel("200000:200256", "210000:210256"),
        ),
        Recipe(
            "varied-29",
            "Which scores work when every run has its own configuration",
            _panel(
                "300000:300256",
                "310000:310256",
                "task.operation=add",
                *_COMMUTES,
                "draws.operation=add,sub,mul,div,x2_xy_y2",
                "draws.train_fraction=0.4,0.6,0.7,0.8",
                "draws.activation=relu,gelu_new",
                "draws.lr=0.005,0.012",
                "draws.weight_decay=0.8,2.5",
                "draws.initializer_range=0.1,0.25",
                "draws.no_decay=0.2",
                "training.steps=5000",
            ),
        ),
        Recipe(
            "mul-31",
            "Do scores that predict grokking of subtraction predict it for multiplication",
            _panel(
                "400000:400064",
                "410000:410128",
                *_COMMUTES,
                "task.operation=mul",
                "task.prime=31",
                "task.train_fraction=0.65",
            ),
        ),
        Recipe(
            "add-29",
            "Do scores that predict grokking of subtraction predict it for addition",
            _panel(
                "500000:500064",
                "510000:510128",
                *_COMMUTES,
                "task.operation=add",
                "task.train_fraction=0.68",
            ),
        ),
        Recipe(
            "sub-59",
            "Do the scores work with four times the rows and a model of twice the width",
            _panel(
                "600000:600032",
                "610000:610064",
                "task.prime=59",
                "task.train_fraction=0.4",
                "model.width=96",
                "model.mlp_width=256",
                "training.lr=0.006",
            ),
        ),
        Recipe(
            "costly-29",
            "Do signals that cost many gradients predict grokking",
            _panel("800000:800064", "810000:810064", "training.observables=all"),
        ),
        Recipe(
            "reference",
            "What do the published runs of others show, which are too few for a lock",
            _published_runs,
            license="cc-by-4.0",
            credit="The runs are seeds 140 to 159 of github.com/qienhuang/F-I-T, "
            "experiments/grokking_transition_audit_v0_1/data/real, by Qien Huang, under CC BY 4.0. "
            "They are as published, with the rows that restarts logged again; the column `score` "
            "is rebuilt from `d_info` and `d_info_alt` and is not a published one.",
            single=False,
        ),
    )
}
