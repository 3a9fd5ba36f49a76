"""What the progress bar shows."""

import io

import numpy as np
import pytest
from rich.console import Console

from gmb_hf.training.launch import GROKKED, MEMORISED, Bar, Listener


def drawn(total=300, done=0, actions=lambda bar: None, width=80):
    """The last line that a bar draws."""
    file = io.StringIO()
    with Bar(total, done, Console(file=file, width=width)) as bar:
        actions(bar)
    lines = [line for line in file.getvalue().splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def accuracies(train, test):
    return {"train_acc": np.array(train), "test_acc": np.array(test)}


def test_a_bar_counts_seeds_times_steps():
    def half(bar):
        for _ in range(50):
            bar.advanced(3)

    line = drawn(actions=half)
    assert "training" in line
    assert "50%" in line
    assert "seed steps/s" in line
    assert "memorised 0 grokked 0" in line


def test_what_an_earlier_start_finished_is_done():
    assert "33%" in drawn(done=100)


def test_a_seed_counts_once_as_soon_as_it_has_memorised_or_grokked():
    def measure(bar):
        seeds = (4, 7, 9)
        bar.measured(seeds, accuracies([1.0, 0.5, MEMORISED], [0.0, 0.0, GROKKED]))
        bar.measured(seeds, accuracies([0.2, 0.5, 1.0], [1.0, 0.0, 0.0]))
        bar.measured((8,), accuracies([1.0], [0.1]))

    assert "memorised 3 grokked 2" in drawn(actions=measure)


def test_hundreds_of_seeds_fit_one_line_of_80_columns():
    def measure(bar):
        bar.advanced(980_000 - 1)
        bar.measured(tuple(range(392)), accuracies([1] * 392, [1] * 392))

    line = drawn(total=980_000, actions=measure)
    assert "memorised 392 grokked 392" in line
    assert len(line) <= 80


def test_it_says_what_is_done_before_the_first_step():
    line = drawn(actions=lambda bar: bar.show("compiling"))
    assert "compiling" in line
    assert "0%" in line


def test_a_bar_stops_when_the_work_fails():
    def fail(bar):
        bar.advanced(30)
        raise KeyboardInterrupt

    file = io.StringIO()
    bar = Bar(300, console=Console(file=file))
    with pytest.raises(KeyboardInterrupt), bar:
        fail(bar)
    assert "10%" in file.getvalue()


def test_nobody_need_listen():
    nobody = Listener()
    assert nobody.advanced(3) is None
    assert nobody.measured((1,), accuracies([1], [1])) is None
