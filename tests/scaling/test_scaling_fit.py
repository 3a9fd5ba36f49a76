"""Fits of losses whose law is known, their intervals, minima at equal compute, comparisons."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_json, write_text
from gmb_hf.protocol.scaling.fit import (
    Cell,
    Points,
    draw_weights,
    fit_cells,
    fit_law,
    frontier,
    iso_flop_minima,
    law_array,
    read_cells,
)
from gmb_hf.protocol.scaling.report import scaling_report

SIZES, TOKENS = (900, 2500, 6000, 15_000, 40_000), (40_000, 120_000, 360_000, 1_080_000)
TRUE = {"A": 6.0, "B": 30.0, "E": 0.82, "alpha": 0.45, "beta": 0.4}


def grid(
    *,
    variant: str = "dense",
    noise: float = 0.0,
    seeds: int = 2,
    sizes: tuple[int, ...] = SIZES,
    tokens: tuple[int, ...] = TOKENS,
    draw: int = 0,
    flops: float = 6.0,
    **changed: float,
) -> list[Cell]:
    """Cells whose losses follow the law, times exp(noise times a normal number)."""
    law, random = {**TRUE, **changed}, np.random.default_rng(draw)
    found = []
    for n in sizes:
        for d in tokens:
            for seed in range(seeds):
                loss = law["A"] / n ** law["alpha"] + law["B"] / d ** law["beta"] + law["E"]
                loss *= math.exp(noise * random.standard_normal())
                cell = Cell(
                    name=f"{variant}-p{n}-t{d}-s{seed}",
                    variant=variant,
                    params=n,
                    tokens=d,
                    seed=seed,
                    parameters=n + 300,
                    non_embedding=n,
                    flops=flops * n * d,
                    test_loss=loss,
                    train_loss=loss,
                    floor=law["E"],
                    test_floor=law["E"],
                    diverged="",
                    layers=1,
                    width=8,
                    steps=10,
                    lr=0.01,
                    hash="",
                )
                found.append(cell)
    return found


@settings(max_examples=8)
@given(st.floats(0.2, 0.9), st.floats(0.2, 0.9), st.floats(0.3, 2.0))
def test_an_exact_law_is_found(alpha: float, beta: float, floor: float):
    points = Points.of(grid(seeds=1, alpha=alpha, beta=beta, E=floor))
    law = fit_law(points.n, points.d, points.loss)
    found = (law.alpha, law.beta, law.E)
    np.testing.assert_allclose(found, (alpha, beta, floor), rtol=0.02)
    np.testing.assert_allclose(law(points.n, points.d), points.loss, rtol=1e-4)


def test_intervals_hold_the_truth_in_most_simulations():
    held = []
    for draw in range(8):
        fit = fit_cells(grid(noise=0.004, draw=draw), draws=50).variants["dense"]
        held.append([fit.numbers[name].holds(TRUE[name]) for name in ("alpha", "beta", "E")])
    # Of eight intervals of 95% at most two miss, but in 6 of 1,000 cases; `benchmarks L1` has 100.
    assert np.all(np.sum(held, axis=0) >= 6)


def test_draws_take_points_with_their_seeds():
    point = np.repeat(np.arange(5), 3)
    weights = draw_weights(point, 50, np.random.default_rng(0))
    assert np.all(weights.sum(axis=1) == 15)
    by_seed = weights.reshape(50, 5, 3)
    assert np.all(by_seed == by_seed[:, :, :1])
    assert by_seed.min() == 0
    assert by_seed.max() > 1


def test_minima_lie_where_the_law_has_them():
    points = Points.of(grid(sizes=tuple(600 * 2**k for k in range(9)), seeds=1))
    minima = iso_flop_minima(points)
    assert len(minima) >= 4
    law = fit_law(points.n, points.d, points.loss)
    for one in minima:
        assert frontier(law_array(law), points, np.array([one.flops]))[0, 0] == pytest.approx(
            one.loss, rel=0.01
        )
        # dL/dN = 0 at D = C / (6 N): alpha A / N^alpha = beta B / D^beta.
        ratio = TRUE["alpha"] * TRUE["A"] / (TRUE["beta"] * TRUE["B"])
        best = (ratio * (one.flops / 6) ** TRUE["beta"]) ** (1 / (TRUE["alpha"] + TRUE["beta"]))
        assert abs(math.log(one.n / best)) < 0.5
        assert one.d == pytest.approx(one.flops / (6 * one.n))
        assert np.polyval(one.parabola, math.log(one.n)) == pytest.approx(one.loss)


def test_the_luck_of_the_held_out_draw_is_taken_off():
    cell = dataclasses.replace(grid()[0], test_loss=1.5, test_floor=0.9, floor=0.8)
    assert cell.loss == pytest.approx(1.4)
    assert dataclasses.replace(cell, floor=None, test_floor=None).loss == 1.5


def test_the_known_floor_is_checked():
    fit = fit_cells(grid(noise=0.003), draws=60).variants["dense"]
    assert fit.known == TRUE["E"]
    assert fit.known_inside is True
    wrong = [dataclasses.replace(one, floor=0.5, test_floor=0.5) for one in grid(noise=0.003)]
    assert fit_cells(wrong, draws=60).variants["dense"].known_inside is False


def test_equal_variants_are_not_told_apart_and_different_ones_are():
    cells = grid(noise=0.003)
    same = [dataclasses.replace(one, variant="other") for one in grid(noise=0.003, draw=1)]
    (pair,) = fit_cells([*cells, *same], draws=60).comparisons
    assert (pair.variant, pair.baseline, pair.told_apart) == ("other", "dense", ())
    assert "too small to tell alpha apart" in pair.sentence
    assert "stays unseen" in pair.sentence
    better = grid(variant="better", noise=0.003, draw=2, beta=0.5)
    (pair,) = fit_cells([*cells, *better], draws=60).comparisons
    assert "beta" in pair.told_apart
    assert pair.numbers["beta"].value == pytest.approx(0.1, abs=0.05)
    assert "beta is larger by" in pair.sentence


def test_tables_and_card_hold_the_comparison(tmp_path: Path):
    cells = [*grid(noise=0.003), *grid(variant="banded-8", noise=0.003, draw=1)]
    for one in cells:
        write_json(tmp_path / "cells" / f"{one.name}.json", one.to_dict())
    write_text(tmp_path / "scaling.yaml", "source: {seed: 0}\n")
    fit, files = scaling_report(tmp_path, draws=40, figures=False)
    names = {path.relative_to(tmp_path / "fit").as_posix() for path in files}
    assert {"report.html", "README.md", "fit.json", "tables/comparison.csv"} <= names
    card = (tmp_path / "fit" / "README.md").read_text(encoding="utf-8")
    assert "banded-8 against dense" in card
    assert "exact floor of the source is 0.8200 nats" in card
    assert fit.comparisons[0].cells == 40


def test_the_same_losses_differ_by_nothing():
    cells = grid(noise=0.004)
    twin = [dataclasses.replace(one, variant="twin") for one in cells]
    (pair,) = fit_cells([*cells, *twin], draws=40).comparisons
    for one in pair.numbers.values():
        assert (one.value, one.low, one.high) == (0, 0, 0)


def test_a_noisy_grid_says_that_it_is_too_small():
    fit = fit_cells(grid(noise=0.15, sizes=SIZES[:3], tokens=TOKENS[:3]), draws=60)
    assert any("too small to know" in note for note in fit.variants["dense"].notes)


def test_diverged_cells_are_named_and_left_out():
    cells = grid(noise=0.003)
    cells[3] = dataclasses.replace(cells[3], test_loss=None, diverged="its loss is no number")
    fit = fit_cells(cells, draws=40)
    assert fit.variants["dense"].cells == len(cells) - 1
    assert fit.left_out == {cells[3].name: "its loss is no number"}
    assert fit.notes[0].startswith(f"diverged, left out of every fit: {cells[3].name}")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (grid(sizes=SIZES[:2]), "dense: too few cells to fit: 2 sizes, 4 amounts"),
        (grid(tokens=TOKENS[:1]), "5 sizes, 1 amounts of tokens and 5 points"),
        (
            [dataclasses.replace(one, diverged="x") for one in grid()],
            r"0 sizes.*\(without 40 that diverged\)",
        ),
    ],
)
def test_too_few_cells(cells: list[Cell], message: str):
    with pytest.raises(InputError, match=message):
        fit_cells(cells, draws=40)


def test_a_variant_with_too_few_cells_is_left_out_with_a_word():
    few = grid(variant="few", sizes=SIZES[:2])
    fit = fit_cells([*grid(), *few], draws=40)
    assert list(fit.variants) == ["dense"]
    assert "few: too few cells" in fit.notes[0]
    with pytest.raises(InputError, match=r"variant 'dens' is unknown.*Did you mean 'dense'"):
        fit_cells(grid(), draws=40, baseline="dens")
    with pytest.raises(InputError, match=r"seed must be .* at least 0, got -1"):
        fit_cells(grid(), draws=40, seed=-1)
    with pytest.raises(InputError, match=r"draws=39: a 95% interval takes at least 40"):
        fit_cells(grid(), draws=39)


def test_records_read_back(tmp_path: Path):
    cells = grid(seeds=1)
    for one in cells:
        write_json(tmp_path / "cells" / f"{one.name}.json", one.to_dict())
    assert read_cells(tmp_path) == cells
    path = tmp_path / "cells" / f"{cells[0].name}.json"
    held = json.loads(path.read_text())
    del held["tokens"]
    write_json(path, held)
    with pytest.raises(InputError, match="no record of a cell"):
        read_cells(tmp_path)
    with pytest.raises(InputError, match="no cells; name the folder of gmb scaling run"):
        read_cells(tmp_path / "nothing")
