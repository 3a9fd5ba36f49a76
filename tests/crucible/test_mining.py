"""Mining: seeded lineups, what passes, what is kept for a second look."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.bundles import unit_rows
from gmb_hf.crucible.mining import MiningSettings, mine, near_duplicates, pass_strength

NAMES = [f"c{number}" for number in range(60)]


def unit(rng: np.random.Generator, n: int, width: int = 16) -> np.ndarray:
    return unit_rows(rng.normal(size=(n, width)), [str(number) for number in range(n)])


def drawn(n: int = 60, size: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    anchors = unit(rng, n)
    mixed = anchors + rng.uniform(0, 2.5, size=(n, 1)) * unit(rng, n)
    return anchors, unit_rows(mixed, NAMES[:n]), unit(rng, size), NAMES[:n]


def test_every_candidate_is_judged_by_its_own_lineups():
    anchors, positives, pool, names = drawn()
    settings = MiningSettings(lineups=10, lineup_size=8, threshold=-0.1, seed=5)
    found = mine(anchors, positives, pool, names, settings)
    assert found.tested == 60
    assert {item.outcome for item in found.candidates} == {"accepted", "quarantined", "rejected"}
    for place, item in enumerate(found.candidates):
        rng = np.random.default_rng([5, place])
        dangers = []
        for _ in range(10):
            chosen = rng.choice(np.arange(200), 8, replace=False)
            hardest = max(anchors[place] @ pool[one] for one in chosen)
            dangers.append((hardest - anchors[place] @ positives[place], chosen.tolist()))
        passes = sum(danger >= -0.1 for danger, _ in dangers)
        assert item.passes == passes
        assert item.strength == pass_strength(passes, 10)
        low = "quarantined" if passes == 2 else "rejected"
        assert item.outcome == ("accepted" if passes >= 3 else low)
        median = sorted(dangers)[4]  # the lower of the middle two, never the worst
        assert item.danger == pytest.approx(median[0])
        # Lineups that share their hardest negative have one danger.
        assert list(item.lineup) in [chosen for danger, chosen in dangers if danger == median[0]]


def test_one_seed_gives_one_result_and_another_seed_another():
    given_ = drawn()
    one = mine(*given_, MiningSettings(seed=1))
    assert mine(*given_, MiningSettings(seed=1)) == one
    assert mine(*given_, MiningSettings(seed=2)).candidates != one.candidates


def test_lineups_do_not_depend_on_the_candidates_that_follow():
    anchors, positives, pool, names = drawn()
    every = mine(anchors, positives, pool, names).candidates
    first = mine(anchors[:7], positives[:7], pool, names[:7]).candidates
    for one, other in zip(every, first, strict=False):
        assert (one.passes, one.lineup) == (other.passes, other.lineup)
        assert one.danger == pytest.approx(other.danger)


def test_a_near_duplicate_is_kept_apart_and_not_tested():
    anchors, positives, pool, _ = drawn(3)
    anchors = np.vstack([anchors, anchors[:1]])
    positives = np.vstack([positives, positives[1:2]])
    found = mine(anchors, positives, pool, ["a", "b", "c", "d"])
    assert found.tested == 3
    copy = found.candidates[3]
    assert (copy.outcome, copy.duplicate_of, copy.danger) == ("quarantined", "a", None)
    assert copy.reason == "nearly repeats 'a'"


def test_a_text_of_the_pool_that_repeats_the_item_is_no_negative():
    anchors, positives, pool, _ = drawn(1, 10)
    pool = np.vstack([pool, positives, anchors])
    found = mine(anchors, positives, pool, ["a"], MiningSettings(lineup_size=10))
    assert sorted(found.candidates[0].lineup) == list(range(10))


def test_a_pool_that_is_too_small_is_refused():
    anchors, positives, pool, names = drawn(2, 5)
    with pytest.raises(InputError, match=r"candidate 'c0': the pool has 5 negatives.*needs 10"):
        mine(anchors, positives, pool, names)


def test_the_pass_rate_and_its_interval():
    found = mine(*drawn(), MiningSettings(threshold=-0.1, lineup_size=8))
    assert found.pass_rate == found.accepted / 60
    assert found.ci_low < found.pass_rate < found.ci_high
    summary = found.summary()
    assert sum(summary["strengths"].values()) == found.accepted
    assert "candidates" not in summary


@given(st.integers(1, 40), st.data())
def test_pass_strength_by_share(lineups, data):
    passes = data.draw(st.integers(0, lineups))
    if passes * 10 >= lineups * 8:
        expected = "ultra"
    elif passes * 2 >= lineups:
        expected = "mid"
    else:
        expected = "low" if passes * 5 >= lineups else "none"
    assert pass_strength(passes, lineups) == expected


def test_near_duplicates_point_at_the_first_kept_row(monkeypatch):
    one, other = [1.0, 0.0], [0.0, 1.0]
    rows = np.array([one, other, one, other, one])
    assert near_duplicates(rows, 0.95).tolist() == [-1, -1, 0, 1, 0]
    monkeypatch.setattr("gmb_hf.crucible.mining._CHUNK", 2)
    assert near_duplicates(rows, 0.95).tolist() == [-1, -1, 0, 1, 0]


def test_equal_rows_repeat_each_other_even_at_a_threshold_of_1():
    rows = unit(np.random.default_rng(0), 300, 33)
    rows[150:] = rows[:150]
    assert near_duplicates(rows, 1.0).tolist() == [-1] * 150 + list(range(150))
    anchors, positives, pool, ids = drawn(n=20)
    size = len(pool)
    pool = np.concatenate([pool, anchors, positives])
    found = mine(anchors, positives, pool, ids, MiningSettings(near_duplicate=1.0))
    for place, item in enumerate(found.candidates):
        assert not {size + place, size + 20 + place} & set(item.lineup)


def test_a_chain_of_likenesses_is_cut_at_kept_rows():
    # The third is like the second only, which was not kept.
    angles = np.array([0.0, 0.25, 0.5])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert near_duplicates(rows, 0.95).tolist() == [-1, 0, -1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lineups": 0}, "lineups must be a whole number of at least 1"),
        ({"lineup_size": 2.5}, "lineup_size must be a whole number"),
        ({"lineups": 2}, "min_passes 3 is above the number of lineups, 2"),
        ({"threshold": float("nan")}, "threshold must be a finite number"),
        ({"near_duplicate": 1.5}, r"near_duplicate must be in \(0, 1\]"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(InputError, match=message):
        MiningSettings(**settings)


def test_arrays_that_do_not_fit():
    anchors, positives, pool, names = drawn()
    with pytest.raises(InputError, match="59 candidates need as many anchors"):
        mine(anchors, positives, pool, names[:59])
    with pytest.raises(InputError, match="the candidates' width is 16"):
        mine(anchors, positives, pool[:, :4], names)
    with pytest.raises(InputError, match="ids of candidates must differ"):
        mine(anchors, positives, pool, ["a"] * 60)
    with pytest.raises(InputError, match="an embedding is not finite"):
        mine(anchors, positives, pool * np.nan, names)
