"""What panels can be built: a recipe each, of recipes.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gmb_hf.base.documents import load_yaml

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
        published: the content hash of the frozen panel that this project's results are about.
        shipped: candidates whose columns the package ships.
    """

    name: str
    asks: str
    config: Callable[[], RunConfig]
    locks: int = 40
    license: str = "apache-2.0"
    credit: str = ""
    single: bool = True
    published: str = ""
    shipped: tuple[str, ...] = ()


def _config(
    base: str = "standard",
    changes: Sequence[str] = (),
    design: Mapping[str, Any] = MappingProxyType({}),
) -> RunConfig:
    """A preset with some fields changed, and fields of the design, by its names."""
    from gmb_hf.training.presets import preset

    config = preset(base).changed(changes)
    return config.judged_by(**design) if design else config


def _read(path: Path) -> Iterator[Recipe]:
    for name, about in load_yaml(path).items():
        trained = about.pop("trained")
        yield Recipe(name, config=partial(_config, **trained), **about)


RECIPES = {recipe.name: recipe for recipe in _read(Path(__file__).with_name("recipes.yaml"))}
