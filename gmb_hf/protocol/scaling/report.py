"""What `gmb scaling fit` writes: fit.json, tables, figures, a card and report.html."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gmb_hf._version import __version__
from gmb_hf.base import escape
from gmb_hf.base.documents import load_yaml
from gmb_hf.base.files import write_json, write_text
from gmb_hf.base.tables import Column, Table
from gmb_hf.protocol.scaling import fit as fitting
from gmb_hf.report import style
from gmb_hf.report.sheet import Sheet, sentences_of, template
from gmb_hf.training.folder import read_config_file

SCHEMA = "gmb-scaling-1"
_LABELS = load_yaml(Path(__file__).with_name("labels.yaml"))


def scaling_report(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    count: str = "non_embedding",
    draws: int = 1000,
    seed: int = 0,
    baseline: str | None = None,
    figures: bool = True,
) -> tuple[fitting.ScalingFit, list[Path]]:
    """Fit the grid in a folder and write what came out; the fit and the files, the page first.

    Args:
        folder: of `gmb scaling run`.
        out: where to write; the folder's `fit/` when None.
        count, draws, seed, baseline: as in `fit_cells`.
        figures: whether to draw them.

    `InputError` where the folder holds no grid, or too small a one.
    """
    place = Path(folder)
    cells, design = fitting.read_cells(place), read_config_file(place / fitting.DESIGN)
    fit = fitting.fit_cells(cells, count=count, draws=draws, seed=seed, baseline=baseline)
    target = place / "fit" if out is None else Path(out)
    made_by = {
        "design": {key: design[key] for key in ("training", "source", "texts") if key in design},
        "known": design.get("known"),
        "versions": design.get("versions"),
        "hash": design.get("hash"),
    }
    content = {
        "schema": SCHEMA,
        "gmb_hf": __version__,
        "delta": fitting.DELTA,
        **made_by,
        **fit.to_dict(),
    }
    data, tables = write_json(target / "fit.json", content), scaling_tables(cells, fit)
    drawn = {}
    if figures:
        whole = [one for one in cells if not one.diverged and one.variant in fit.variants]
        by_variant = {name: [one for one in whole if one.variant == name] for name in fit.variants}
        for name, draw in _FIGURES.items():
            drawn[name] = _LABELS["figures"][name], draw(by_variant, fit)
    notes = [*fit.notes, *(note for one in fit.variants.values() for note in one.notes)]
    sentences = scaling_sentences(fit)
    facts = [(key, str(value)) for key, value in made_by.items() if value is not None]
    facts += [("N", count), ("bootstrap", f"{draws} draws, seed {seed}")]
    title, said = "How loss falls with parameters and with tokens", [*sentences, *notes]
    sheet = Sheet("GMB scaling laws", title, said, tables=tables, facts=facts)
    answer = {"sentences": sentences, "notes": notes, "facts": facts, "version": __version__}
    of_card = [table for table in tables if table.name in ("law", "comparison")]
    card = template("card.md.j2", "gmb_hf.protocol.scaling")
    text = write_text(target / "README.md", card.render(answer, count=count, tables=of_card))
    page, *others = sheet.write_folder(target, drawn)
    return fit, [page, text, data, *others]


def scaling_sentences(fit: fitting.ScalingFit) -> list[str]:
    """The answer of each variant, whether the known floor is found, and the comparisons."""
    said = sentences_of("sentences.j2", "gmb_hf.protocol.scaling", fit=fit)
    return [*said, *(pair.sentence for pair in fit.comparisons)]


def scaling_tables(cells: Sequence[fitting.Cell], fit: fitting.ScalingFit) -> list[Table]:
    """`law`, `isoflop`, `comparison` (of several variants) and `cells`."""
    rows: list[Any] = []
    for name, one in fit.variants.items():
        rows += [(name, *row) for row in _estimates(one.numbers)]
        rows.append((name, "best N by compute, parabolas", *_interval(one.iso_n)))
        rows.append((name, "best D by compute, parabolas", *_interval(one.iso_d)))
        rows.append((name, "exact floor (nats)", one.known, None, None))
        rows.append((name, "rms residual of log L", one.rms, None, None))
    bounds = [Column(name, "{:.4g}".format) for name in ("value", "low", "high")]
    head = [Column("variant", shrinks_to=12), Column("number", shrinks_to=16)]
    caption = "Fitted numbers with 95% bootstrap intervals"
    found = [Table([*head, *bounds], rows, "law", caption)]
    minima = [
        (name, each.flops, each.n, each.d, each.loss, len(each.sizes))
        for name, one in fit.variants.items()
        for each in one.minima
    ]
    size = [Column(name, "{:.3g}".format) for name in ("FLOPs", "best N", "best D")]
    columns = [Column("variant"), *size, Column("loss", escape.number), Column("sizes", str)]
    caption = "Best size at equal compute, by parabolas in log N"
    found.append(Table(columns, minima, "isoflop", caption))
    if fit.comparisons:
        pairs = [
            (pair.variant, pair.baseline, *row)
            for pair in fit.comparisons
            for row in _estimates(pair.numbers)
        ]
        names = [Column("variant"), Column("baseline"), Column("difference of")]
        caption = "Variant less baseline on the points and seeds of both, paired bootstrap"
        found.append(Table([*names, *bounds], pairs, "comparison", caption))
    counts = ("non_embedding", "parameters", "tokens")
    each_cell = (
        *(Column("cell", take="name", shrinks_to=16), Column("variant", take="variant")),
        *(Column(name, escape.steps, take=name) for name in counts),
        Column("seed", str, take="seed"),
        Column("FLOPs", "{:.3g}".format, take="flops"),
        Column("loss", "{:.4f}".format, take=lambda one: None if one.diverged else one.loss),
        Column("held-out loss", "{:.4f}".format, take="test_loss"),
        Column("steps", escape.steps, take="steps"),
        Column("rate", "{:.3g}".format, take="lr"),
        Column("left out", take="diverged"),
    )
    found.append(Table.of(cells, each_cell, "cells", "Every training of the grid"))
    return found


def _estimates(numbers: Mapping[str, fitting.Estimate]) -> list[tuple[Any, ...]]:
    """Label, value, low and high of each number, in the order of labels.yaml."""
    labels = _LABELS["numbers"].items()
    return [(label, *_interval(numbers[key])) for key, label in labels if key in numbers]


def _interval(found: fitting.Estimate | None) -> tuple[float | None, ...]:
    return (None, None, None) if found is None else astuple(found)


By = Mapping[str, Sequence[fitting.Cell]]


def _means(cells: Sequence[fitting.Cell]) -> dict[tuple[int, int], tuple[float, float]]:
    """(size, tokens) as asked for -> FLOPs, mean loss over seeds."""
    found: dict[tuple[int, int], list[fitting.Cell]] = {}
    for one in cells:
        found.setdefault((one.params, one.tokens), []).append(one)
    return {
        key: (group[0].flops, float(np.mean([one.loss for one in group])))
        for key, group in sorted(found.items())
    }


def _shades(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](place) for place in np.linspace(0.08, 0.86, count)]


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _flops_text(value: float) -> str:
    """1.3e9 as 1.3×10⁹, and 1e9 as 10⁹."""
    digits, power = f"{value:.1e}".split("e")
    base = "" if digits == "1.0" else f"{digits}×"
    return f"{base}10{str(int(power)).translate(_SUPERSCRIPTS)}"


def _count_text(value: float) -> str:
    """400, 20k, 3M."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _log_axis(axes: Axes, text: Callable[[float], str]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _panels(
    fit: fitting.ScalingFit, text: Callable[[float], str]
) -> tuple[Figure, list[tuple[str, Axes]]]:
    """A panel for each variant, side by side on the same axes."""
    count = len(fit.variants)
    figure = style.new_figure(min(2.2 + 3.2 * count, 11.0), 3.3)
    grid = figure.subplots(1, count, squeeze=False, sharey=True, sharex=True)[0]
    pairs = list(zip(fit.variants, grid, strict=True))
    for name, axes in pairs:
        axes.set_title(style.shorten(name, 30))
        _log_axis(axes, text)
    return figure, pairs


def _floor(axes: Axes, one: fitting.VariantFit) -> None:
    """The fitted floor with its interval, and the exact one."""
    found = one.numbers["E"]
    if found.low is not None and found.high is not None:
        axes.axhspan(found.low, found.high, color=style.RULE, alpha=0.5, lw=0, zorder=0)
    name = "E, fitted, with its 95% interval"
    axes.axhline(found.value, color=style.MUTED, lw=1, ls=style.DASHED, label=name)
    if one.known is not None:
        name = "exact entropy of the source"
        axes.axhline(one.known, color=style.VERMILION, lw=1, ls=style.DOTTED, label=name)


def loss_by_compute(by_variant: By, fit: fitting.ScalingFit) -> Figure:
    """Loss against compute: a line for each size, and the frontier of the fitted law."""
    with style.house_style():
        figure, panels = _panels(fit, _flops_text)
        for name, axes in panels:
            cells, one = by_variant[name], fit.variants[name]
            means, points = _means(cells), fitting.Points.of(cells, fit.count)
            sizes = sorted({size for size, _ in means})
            for turn, (size, colour) in enumerate(zip(sizes, _shades(len(sizes)), strict=True)):
                line = np.array([pair for key, pair in means.items() if key[0] == size]).T
                mark = style.variant_marker(turn)
                exact = next(getattr(each, fit.count) for each in cells if each.params == size)
                label = f"N = {exact:,}" if len(panels) == 1 else f"N about {size:,}"
                axes.plot(*line, marker=mark, ms=4, lw=1, color=colour, label=label, zorder=2)
            flops = np.geomspace(points.flops.min(), points.flops.max() * 3, 60)
            best = fitting.frontier(fitting.law_array(one.law), points, flops)[0]
            axes.plot(flops, best, color=style.INK, lw=1.8, label="frontier of the fit", zorder=3)
            _floor(axes, one)
            axes.set_xlabel("training compute (FLOPs)")
        style.legend_beside(panels[-1][1])
        panels[0][1].set_ylabel("held-out loss (nats per token)")
        return figure


def iso_flop_parabolas(by_variant: By, fit: fitting.ScalingFit) -> Figure:
    """Loss against size at equal compute, with the parabolas and their minima."""
    with style.house_style():
        figure, panels = _panels(fit, _count_text)
        for place, (name, axes) in enumerate(panels):
            one = fit.variants[name]
            for turn, (each, colour) in enumerate(
                zip(one.minima, _shades(len(one.minima)), strict=True)
            ):
                mark = style.variant_marker(turn)
                x = np.geomspace(min(each.sizes), max(each.sizes), 60)
                axes.plot(x, np.polyval(each.parabola, np.log(x)), color=colour, lw=1)
                look: Any = {"marker": mark, "ms": 4, "ls": "", "color": colour}
                label = f"{_flops_text(each.flops)} FLOPs"
                axes.plot(each.sizes, each.losses, **look, label=label)
                axes.plot(each.n, each.loss, "*", ms=9, color=style.VERMILION, mec="white", mew=0.5)
            if not one.minima:
                axes.text(
                    0.5, 0.5, "no minimum within the sizes", transform=axes.transAxes, ha="center"
                )
            axes.set_xlabel(f"parameters N ({_COUNT[fit.count]})")
            if place == len(panels) - 1 and one.minima:
                star = style.line_key("minimum", marker="*", ms=9, ls="", color=style.VERMILION)
                handles = [*axes.get_legend_handles_labels()[0], star]
                style.legend_beside(axes, handles=handles)
        panels[0][1].set_ylabel("held-out loss (nats per token)")
        return figure


_COUNT = {"non_embedding": "without embeddings", "parameters": "all"}


def residual_panels(by_variant: By, fit: fitting.ScalingFit) -> Figure:
    """Residuals of log L against size and against tokens, a mark for each cell."""
    with style.house_style():
        figure = style.new_figure(7.2, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        count = len(fit.variants)
        for place, (name, one) in enumerate(fit.variants.items()):
            points = fitting.Points.of(by_variant[name], fit.count)
            residual = 100 * (np.log(points.loss) - np.log(one.law(points.n, points.d)))
            look: Any = {
                "marker": style.variant_marker(place),
                "s": 16,
                "color": style.variant_colour(place),
                "alpha": 0.75,
                "linewidths": 0,
            }
            shift = 1.05 ** (place - (count - 1) / 2)  # marks of several variants side by side
            left.scatter(points.n * shift, residual, **look)
            right.scatter(points.d * shift, residual, **look, label=style.shorten(name, 26))
        for axes, label in ((left, f"parameters N ({_COUNT[fit.count]})"), (right, "tokens D")):
            _log_axis(axes, _count_text)
            axes.axhline(0, color=style.INK, lw=0.8)
            axes.set_xlabel(label)
        left.set_ylabel("loss over the fit (%)")
        if count > 1:
            style.legend_beside(right)
        return figure


_FIGURES = {"compute": loss_by_compute, "isoflop": iso_flop_parabolas, "residuals": residual_panels}
