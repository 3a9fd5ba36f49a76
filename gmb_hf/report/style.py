"""How figures look, and how they are saved: the same bytes for the same data.

Colours are those of Okabe and Ito (2008), which stay apart for colour-blind readers; nothing is
told by colour alone, so that figures also read in grayscale.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import AbstractPathEffect, Normal, Stroke
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base import escape
from gmb_hf.base.files import atomic_path

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
INK = "#222222"
MUTED = "#6B6B6B"
RULE = "#D0D0D0"
FAINT = "#F3F3F3"

VARIANT_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, BLACK)
VARIANT_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "||||")
VARIANT_DASHES: tuple[tuple[int, tuple[float, ...]], ...] = (
    (0, ()),
    (0, (4, 1.6)),
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)),
    (0, (10, 1, 1, 1)),
)
"""Of variants that are compared, by their place: told apart by colour, and by form."""

VARIANT_MARKERS = "osD^vPX*"


def variant_colour(place: int) -> str:
    """The colour of the variant at a place, from 0; they begin again after the last."""
    return VARIANT_COLOURS[place % len(VARIANT_COLOURS)]


def variant_marker(place: int) -> str:
    """The same of its marker."""
    return VARIANT_MARKERS[place % len(VARIANT_MARKERS)]


Dashes = str | tuple[int, tuple[float, ...]]
DASHED: Dashes = (0, (4, 1.6))
LONG_DASHED: Dashes = (0, (5, 1.5))
DOTTED: Dashes = (0, (1, 1.2))

# The one label that allows an alarm is dark, all others are pale, so that it is found at a
# glance, in grayscale too.
LABEL_COLOURS = {
    "SUPPORTED_FOR_ALARM": BLUE,
    "SCOPE_LIMITED": "#A9D6F2",
    "INCONCLUSIVE": "#E2E2E2",
    "ESTIMATOR_UNSTABLE": "#F1D6E4",
    "RANK_ONLY": "#FBE7BC",
}
LABEL_INKS = {"SUPPORTED_FOR_ALARM": "#FFFFFF"}

DPI = 200
"""Of the PNG files."""
_SCREEN_DPI = 110  # in a notebook

_STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("figures.mplstyle"), use_default_template=False
)

HALO: list[AbstractPathEffect] = [Stroke(linewidth=2, foreground="#FFFFFF", alpha=0.85), Normal()]
"""For text that lies on lines."""


@contextmanager
def house_style() -> Iterator[None]:
    """The settings that every figure is drawn and saved under; nothing global is changed."""
    with mpl.rc_context(_STYLE):
        yield


@contextmanager
def _any_script() -> Iterator[None]:
    """A name in a script that the font lacks is drawn as boxes, unsaid; the tables spell it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


class NotebookFigure(Figure):
    """A figure that a notebook shows as the value of a cell, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        with house_style(), _any_script(), io.BytesIO() as page:
            self.savefig(page, format="png", dpi=_SCREEN_DPI)
            return page.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, laid out without overlaps."""
    return NotebookFigure(figsize=(width, height), layout="constrained")


def title(figure: Figure, text: str, **look: Any) -> Text:
    """A title over a whole figure, in as many lines as it takes to lie within its width.

    The figure grows by the lines that it takes more than one. `look` is of `Figure.suptitle`.
    """
    shown = wrapped(figure.suptitle(text, **look), 0.98 * figure.get_figwidth())
    more = shown.get_text().count("\n")
    figure.set_figheight(figure.get_figheight() + more * 1.25 * float(shown.get_fontsize()) / 72)
    return shown


def wrapped(shown: Text, room: float) -> Text:
    """A text of a figure, broken into lines of at most `room` inches."""
    text, figure = shown.get_text(), shown.get_figure(root=True)
    if not text or figure is None:
        return shown
    with _any_script():
        across = shown.get_window_extent().width / figure.dpi
        width = int(len(text) * min(1.0, room / max(across, 1e-9)))
        while across > room and width:
            shown.set_text(textwrap.fill(text, width))
            across = shown.get_window_extent().width / figure.dpi
            width -= 1
    return shown


def panel_grid(
    count: int, columns: int, *, width: float, panel_height: float, above: float = 1
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` equal panels that share both axes; sizes in inches.

    Only the leftmost panel of a row and the lowest of a column carry ticks. `panel_height` is of a
    row with its title, `above` what stands over or under all of them.
    """
    rows = max(1, -(-count // columns))
    figure = new_figure(width, above + rows * panel_height)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for index, axes in enumerate(grid.flat):
        axes.set_visible(index < count)
        axes.xaxis.set_visible(index + columns >= count)
        axes.xaxis.set_tick_params(labelbottom=True)
        axes.yaxis.set_visible(index % columns == 0)
    return figure, list(grid.flat[:count])


def save_figure(
    figure: Figure, path: str | Path, *, formats: tuple[str, ...] = ("png", "svg")
) -> list[Path]:
    """Write `path`.png (`DPI`) and `path`.svg, or one of them; returns the files.

    They are written atomically, and equal figures give equal bytes. The figure is laid out once,
    so that its files show the same.
    """
    written, stem = [], Path(path)
    layout, dpi = figure.get_layout_engine(), figure.dpi
    with house_style(), _any_script():
        if layout is not None:
            figure.set_dpi(DPI)
            layout.execute(figure)
            figure.set_layout_engine(None)  # else each file is drawn twice, once for its layout
        for suffix in formats:
            target = stem.with_name(f"{stem.name}.{suffix}")
            metadata = {"Date": None} if suffix == "svg" else {"Software": None}
            with atomic_path(target) as temporary:
                figure.savefig(temporary, format=suffix, dpi=DPI, metadata=metadata)
            written.append(target)
    figure.set_layout_engine(layout)
    figure.set_dpi(dpi)
    return written


def drawable(values: ArrayLike) -> NDArray[np.float64]:
    """The values, with the largest finite ones cut at 1e300: an axis is a difference of two."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(found), np.clip(found, -1e300, 1e300), found)


def thin_lines(
    axes: Axes,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    colour: str,
    *,
    most: float = 0.5,
) -> None:
    """A thin line for each run, the fainter the more runs there are.

    Steps and values are [R, T], NaN where a run has no such checkpoint; `most` is the opacity of
    few lines.
    """
    pairs = zip(steps, values, strict=True)
    lines = [np.column_stack(pair)[np.isfinite(pair[1])] for pair in pairs]
    # Hundreds of lines as vectors would make the SVG megabytes large.
    axes.add_collection(
        LineCollection(
            [line for line in lines if len(line)],
            colors=colour,
            linewidths=0.6,
            alpha=float(np.clip(20 / len(steps), 0.07, most)),
            rasterized=True,
            zorder=1,
        )
    )


def line_key(label: str, **look: Any) -> Line2D:
    """An entry of a legend for a line or a marker."""
    return Line2D([], [], label=label, **look)


def legend_beside(axes: Axes, **look: Any) -> None:
    """A legend to the right of a panel."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, **look)


def note(
    axes: Axes, text: str, point: tuple[float, float], shift: tuple[float, float], **look: Any
) -> None:
    """A text that is `shift` points away from a point of the axes."""
    axes.annotate(text, point, xytext=shift, textcoords="offset points", **look)


def step_axis(axes: Axes, label: str, *, ticks: int = 6) -> None:
    """A horizontal axis in training steps: 1,000 rather than 1e3."""
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}".replace("-", "\N{MINUS SIGN}"))
    )


def rate_axis(axis: Axis) -> None:
    """An axis of rates, written without a leading zero."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: rate_text(value)))


def log_loss_axis(axis: Axis) -> None:
    """A logarithmic axis of losses: .01, .1, 1 rather than powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
    axis.set_minor_locator(NullLocator())
    rate_axis(axis)


def rate_text(value: float) -> str:
    """A rate without its leading zero: .05, 1, 0."""
    text = f"{value:.3g}"
    text = text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
    return text.replace("-", "\N{MINUS SIGN}")  # as the axes of matplotlib have it


shorten = escape.shorten
