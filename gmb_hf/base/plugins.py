"""Indicators, tasks and readers of other packages, registered by entry points.

    [project.entry-points."gmb_hf.indicators"]
    my_package = "my_package.indicators"

A package that cannot be loaded is reported in one line on standard error, with its name, and the
others work on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

logger = logging.getLogger(__name__)


def load_plugins(group: str, enter: Callable[[str, Any], object]) -> None:
    """Load every entry point of a group.

    Args:
        group: "gmb_hf.indicators", "gmb_hf.tasks" or "gmb_hf.readers".
        enter: called with the name of each entry point and the object that it names; what it
            raises is reported like an error of the package.
    """
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            enter(point.name, point.load())
        except Exception as error:  # of any package: any kind
            package = point.dist.name if point.dist else point.module
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            logger.warning(
                "%s: its %s %r (%s) could not be loaded and is left out: %s; repair or "
                "uninstall %s",
                *(package, group, point.name, point.value, reason, package),
            )
