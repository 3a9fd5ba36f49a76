"""Train a language model on text under Accelerate.

    python -m gmb_hf.jobs.trainers.language --text tinystories=stories.txt --out runs/stories
    accelerate launch -m gmb_hf.jobs.trainers.language --preset gpt2 \\
        --text tinystories --test-text tinystories --seeds 1337,42,7 --out runs/tinystories
    torchrun --nproc_per_node 2 -m gmb_hf.jobs.trainers.language --cpu \\
        --text tinystories=stories.txt --out runs/stories

A text is a UTF-8 file under a name, or a name alone: `tinystories`, `shakespeare` and `wikitext2`
are streamed from the Hub. Several processes share each batch; the same command resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train, print what was written; the exit code, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m gmb_hf.jobs.trainers.language",
        description="Train a language model on text under Accelerate.",
    )
    parser.add_argument("--preset", default="byte", help="byte, gpt2 or smoke")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE")
    parser.add_argument("--text", nargs="+", required=True, metavar="NAME[=FILE]")
    parser.add_argument("--test-text", nargs="+", default=[], metavar="NAME[=FILE]")
    parser.add_argument("--seeds", default="1337", help="e.g. 1337,42,7; one model each")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    parser.add_argument("--track", action="append", default=[], metavar="TRACKER")
    options = parser.parse_args(arguments)

    from gmb_hf.training.launch import exit_code

    return exit_code(lambda: train(options))


def train(options: argparse.Namespace) -> None:
    """Train this process's part of every batch."""
    from gmb_hf.protocol.language import train as language_training
    from gmb_hf.protocol.language.config import language_preset
    from gmb_hf.protocol.language.train import LossBar
    from gmb_hf.tasks.text import read_sources
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import Listener, make_accelerator
    from gmb_hf.training.tracking import SeedTracking, Tracking, installed

    config = language_preset(options.preset).changed(options.set)
    seeds = parse_seeds(options.seeds)
    separator = config.text.separator
    texts = read_sources(options.text, separator=separator, held_out=False)
    test_texts = (
        read_sources(options.test_text, option="--test-text", separator=separator)
        if options.test_text
        else ()
    )
    present, notes = installed(options.track)
    training = config.training
    accelerator = make_accelerator(
        cpu=options.cpu,
        mixed_precision=training.precision,
        gradient_accumulation_steps=training.accumulate,
    )
    each = training.steps * training.batch * config.text.block
    done = sum(language_training.checkpoint_path(options.out, seed).exists() for seed in seeds)
    shown = (
        LossBar(each * len(seeds), each * done)
        if accelerator.is_main_process
        else contextlib.nullcontext(Listener())
    )
    if not accelerator.is_main_process:
        present = []  # every process trains the same seeds
    for note in notes if accelerator.is_main_process else ():
        print(f"note: {note}", file=sys.stderr)
    project: Any = {"project": "gmb-language", "config": config.identity()}
    with shown as heard, Tracking(present, options.out, **project) as tracking:
        bar = SeedTracking(tracking, heard) if present else heard
        folders = language_training.train(
            config,
            seeds,
            options.out,
            texts=texts,
            test_texts=test_texts,
            accelerator=accelerator,
            listener=bar,
        )
    if accelerator.is_main_process:
        from gmb_hf.hub.models import write_cards

        for note in write_cards(options.out)[1]:
            print(f"note: {note}", file=sys.stderr)
        print("\n".join(map(str, folders)))
        command = ["gmb", "heldout", "--checkpoint", *map(str, folders), "--text"]
        known = options.test_text or options.text
        print(f"next: {shlex.join([*command, *known, '--out', str(options.out / 'heldout')])}")


if __name__ == "__main__":
    sys.exit(main())
