"""Rating: every distinct answer is rated once, in this rating and in all later ones."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from answers_builders import answer, answers
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.answers.files import (
    CheckpointScore,
    CheckpointScores,
    write_scores,
)
from gmb_hf.protocol.answers.judges import ScoreCache, default_cache, rate
from gmb_hf.protocol.answers.models import equally_long
from gmb_hf.runs.runlog import RunLog


class Counting:
    """Its score is the length of the answer; it counts what it is asked, and may fail."""

    def __init__(self, name: str = "lengths", fails_after: float = math.inf) -> None:
        self.place = name
        self.about: dict[str, Any] = {"judge": name, "how": "length"}
        self.asked = 0
        self.fails_after = fails_after

    def rated(
        self, pairs: Sequence[tuple[str, str]], batch: int
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        for places in equally_long([len(text) for _, text in pairs], batch):
            if self.asked >= self.fails_after:
                raise KeyboardInterrupt
            self.asked += len(places)
            lengths = [len(pairs[place][1]) for place in places]
            yield places, np.array([length or math.nan for length in lengths], dtype=float)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ScoreCache]:
    with ScoreCache(tmp_path / "cache" / "scores.sqlite") as held:
        yield held


def test_the_mean_over_prompts_and_samples(cache: ScoreCache) -> None:
    given = [
        answer("a", 0, "p", 0, "xx"),
        answer("a", 0, "p", 1, "xxxx"),
        answer("a", 0, "q", 0, "x"),
        answer("a", 5, "p", 0, "xx"),
        answer("a", 5, "q", 0, ""),
    ]
    found = rate(given, Counting(), cache)
    assert found.scores.rows == (
        CheckpointScore("a", 0, 2.0, 3),
        CheckpointScore("a", 5, 2.0, 1),
    )
    assert (found.rated_now, found.from_cache, found.empty) == (4, 0, 1)
    with pytest.raises(InputError, match="run 'a', step 0: all answers are empty"):
        rate([answer("a", 0, "p", 0, "")], Counting(), cache)


def test_no_answer_is_rated_twice(cache: ScoreCache) -> None:
    judge, given = Counting(), answers()
    distinct = len({(one.prompt, one.answer) for one in given})
    first = rate(given, judge, cache)
    assert (judge.asked, first.rated_now, first.from_cache) == (distinct, distinct, 0)
    again = rate(given, judge, cache)
    assert (judge.asked, again.rated_now, again.from_cache) == (distinct, 0, distinct)
    assert again.scores == first.scores
    rate(
        [
            *given,
            answer("new", 0, "the ", 0, "x"),
            answer("new", 0, "in the sun ", 0, "x"),
        ],
        judge,
        cache,
    )
    assert judge.asked == distinct + 2


def test_another_judge_or_template_is_another_score(cache: ScoreCache) -> None:
    rate(answers(), Counting(), cache)
    for other in (Counting("other"), Counting()):
        other.about["template"] = "{answer}"
        found = rate(answers(), other, cache)
        assert found.rated_now == other.asked > 0


def test_what_was_rated_before_a_kill_stays(cache: ScoreCache, tmp_path: Path) -> None:
    given = answers()
    distinct = len({(one.prompt, one.answer) for one in given})
    stopped = Counting(fails_after=2)
    with pytest.raises(KeyboardInterrupt):
        rate(given, stopped, cache, batch=1)
    assert stopped.asked == 2
    with ScoreCache(cache.path) as later:
        judge = Counting()
        found = rate(given, judge, later, batch=1)
    assert (judge.asked, found.from_cache) == (distinct - 2, 2)
    with ScoreCache(tmp_path / "fresh.sqlite") as fresh:
        assert rate(given, Counting(), fresh).scores == found.scores


def test_many_answers_are_given_to_the_judge_in_parts(
    cache: ScoreCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listening(Counting):
        def rated(
            self, pairs: Sequence[tuple[str, str]], batch: int
        ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
            parts.append([len(prompt) + len(answer) for prompt, answer in pairs])
            return super().rated(pairs, batch)

    parts: list[list[int]] = []
    whole = rate(answers(), Counting("another"), cache)
    monkeypatch.setattr("gmb_hf.protocol.answers.judges._AT_ONCE", 4)
    found = rate(answers(), Listening(), cache)
    assert found.scores.rows == whole.scores.rows
    assert [len(part) for part in parts] == [4, 2]
    lengths = [length for part in parts for length in part]
    assert lengths == sorted(lengths, reverse=True)


def test_an_infinite_score_is_none(cache: ScoreCache) -> None:
    class Endless(Counting):
        def rated(
            self, pairs: Sequence[tuple[str, str]], batch: int
        ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
            yield list(range(len(pairs))), np.full(len(pairs), -math.inf)

    with pytest.raises(InputError, match="endless: gives -inf; a judge must give finite numbers"):
        rate(answers(), Endless("endless"), cache)
    assert rate(answers(), Counting("endless"), cache).from_cache == 0


def test_checkpoints_asked_otherwise_are_refused(cache: ScoreCache) -> None:
    with pytest.raises(InputError, match="no answer to the prompt 'more'"):
        rate([*answers(), answer("seed_0", 0, "more", 0, "x")], Counting(), cache)
    with pytest.raises(InputError, match="--batch-size must be a whole number of at least 1"):
        rate(answers(), Counting(), cache, batch=0)


class TestCache:
    def test_many_keys_and_no_value(self, cache: ScoreCache) -> None:
        keys = [number.to_bytes(32) for number in range(1200)]
        cache.put({key: float(number) for number, key in enumerate(keys)})
        cache.put({keys[3]: math.nan})
        found = cache.get([*keys, b"\xff" * 32])
        assert len(found) == 1200
        assert math.isnan(found.pop(keys[3]))
        assert found[keys[1199]] == 1199.0

    def test_another_file_is_no_cache(self, tmp_path: Path) -> None:
        path = tmp_path / "x.sqlite"
        path.write_text("some text that is no database, but long enough" * 10)
        with pytest.raises(
            InputError, match=r"x.sqlite: cannot be used as a cache of scores .*remov"
        ):
            ScoreCache(path)
        with pytest.raises(InputError, match="cannot be used as a cache of scores"):
            ScoreCache(tmp_path)

    def test_a_damaged_one_is_named(self, cache: ScoreCache) -> None:
        with sqlite3.connect(cache.path) as held:
            held.execute("DROP TABLE scores")
        with pytest.raises(InputError, match=r"cannot be used as a cache .*no such table"):
            cache.get([b"x"])

    def test_where_it_is(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert default_cache() == tmp_path / "gmb-hf" / "judge.sqlite"


class TestScoresFile:
    SCORES = CheckpointScores(
        "mine",
        (CheckpointScore("b_10", 5, 0.5, 4), CheckpointScore("b_2", 5, 0.25, 4, seed=2)),
        "judge x, 'quoted'; versions",
    )

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
    def test_any_reader_of_logs_reads_it(self, tmp_path: Path, ending: str) -> None:
        path = write_scores(tmp_path / f"scores.{ending}", self.SCORES)
        log = RunLog.read(path)
        assert log.runs == ("b_2", "b_10")
        assert log.seeds == (2, None)
        assert log.panel("mine").values.tolist() == [[0.25], [0.5]]
        assert "made_by" in log.set_aside

    def test_it_says_what_made_it(self, tmp_path: Path) -> None:
        path = write_scores(tmp_path / "scores.parquet", self.SCORES)
        assert pq.read_table(path)["made_by"].to_pylist() == [self.SCORES.made_by] * 2

    @pytest.mark.parametrize(
        ("path", "name", "message"),
        [
            ("x.txt", "mine", "--out x.txt: scores are written as .parquet, .csv, .jsonl"),
            ("x.csv", "step", "--name 'step': is taken by another column"),
            ("x.csv", " ", "--name ' ': is taken by another column"),
        ],
    )
    def test_what_cannot_be_written(self, path: str, name: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            write_scores(path, CheckpointScores(name, (), ""))
