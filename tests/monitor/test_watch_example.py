"""The example's own parts: its stale copy, the jump that it marks, and its picture."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from live_runs import GAIN, Evaluated
from transformers import GPT2Config, GPT2LMHeadModel

from gmb_hf.benchmark.events import find_events

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "watch_a_run.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("watch_a_run", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stale_copy_stays_what_it_was(example: ModuleType) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))
    stale = example.StaleCopy(10)
    before = stale(model, 10)
    with torch.no_grad():
        model.get_input_embeddings().weight[0] += 5
    assert stale(model, 20) == before
    assert example.StaleCopy(10)(model, 0) != before


def test_the_picture_is_drawn_from_the_logs(
    example: ModuleType,
    evaluated: Evaluated,
    judged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.setattr(example, "INDICATOR", GAIN)
    log = evaluated.held_out.select([evaluated.held_out.runs[0]])
    jump = find_events(log, evaluated.lock.design).step[0]
    for name, broken in (("as_it_is", False), ("stale", True)):
        monitor, lines = evaluated.monitor(GAIN), []
        for row in evaluated.rows():
            reading = monitor.update(**({"step": row["step"]} if broken else row))
            score = None if broken else reading.scores[GAIN]
            lines.append({**row, f"{GAIN}.score": score, "state": reading.state})
        (tmp_path / name).mkdir()
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / name / example.LOG_FILE).write_text(text)
        assert example.jump_of(judged / "lock.yaml", tmp_path / name) == jump
    arguments = ["--lock", str(judged / "lock.yaml"), "--out", str(tmp_path), "--only-draw"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    example.main()
    assert capsys.readouterr().out.split() == ["wrote", str(tmp_path / "watch.png")]
    assert (tmp_path / "watch.png").read_bytes().startswith(b"\x89PNG")
