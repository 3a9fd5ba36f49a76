"""`gmb data`: tasks as files, and datasets as folders.

Options:
    out (out/gmb-mine): Folder to write to.
    version: Of the set; a later one may only add to what the folder holds.
    task: Only this task; may be given several times.
    seed: Seed of the splits train and test.
    fraction: Share of rows to train on.
    text: NAME=FILE, or a text of the Hub: tinystories, wikitext2, ...
    license: [NAME=]LICENCE of texts whose licence is not known.
    runs: Run logs: FOLDER, or NAME=FOLDER.
"""

from __future__ import annotations

import json
import shlex
import sys
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gmb_hf.base.errors import InputError
from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import output, screen
from gmb_hf.cli.options import App, declare, several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gmb_hf.hub.datasets import DatasetConfig
    from gmb_hf.tasks.text import Text

build_app = App(no_args_is_help=False)


def everything(
    context: typer.Context,
    all_: bool = False,
    out: Path | None = None,
    text: list[str] | None = None,
    license: list[str] | None = None,
    runs: list[str] | None = None,
    runs_license: list[str] | None = None,
    version: str = "v1",
) -> None:
    """Write datasets: one kind (below), or `--all`, texts and run logs where they are given.

    Options:
        all_, --all: Every dataset, each in its folder.
        out: Folder of the folders.
        runs_license: [NAME=]LICENCE of run logs, as the Hub names it; Apache-2.0 for what gmb
            trained.
    """
    if context.invoked_subcommand is not None:
        return
    if not all_:
        raise InputError("say what to build: modular, groups, formal, icl, heldout, runs, or --all")
    if out is None:
        raise InputError("--out is missing: name a folder for the datasets, e.g. --out out")
    modular(out / "gmb-modular", version=version)
    groups(out / "gmb-groups", version=version)
    formal(out / "gmb-formal", version=version)
    icl(out / "gmb-icl", version=version)
    if text:
        heldout(out / "gmb-heldout", text, license, version=version)
    if runs:
        runs_(out / "gmb-runs", runs, runs_license, version=version)


build_app.callback(invoke_without_command=True, help=declare(everything))(everything)


@build_app.command()
def modular(
    out: Path,
    task: list[str] | None = None,
    seed: int = 42,
    fraction: float = 0.5,
    op_token: str = "distinct",
    version: str = "v1",
) -> None:
    """Modular arithmetic: a config for each task, `add_p97` and so on.

    Options:
        op_token: distinct: one token for each operation; shared: one for all.
    """
    from gmb_hf.hub.datasets import modular_configs

    configs = modular_configs(task or (), data_seed=seed, fraction=fraction, op_token=op_token)
    _build(configs, out, "modular", version)


@build_app.command()
def groups(
    out: Path,
    task: list[str] | None = None,
    seed: int = 42,
    fraction: float = 0.5,
    version: str = "v1",
) -> None:
    """Groups that do not commute: a config for each, `dihedral_15` and so on."""
    from gmb_hf.hub.datasets import group_configs

    _build(group_configs(task or (), data_seed=seed, fraction=fraction), out, "groups", version)


@build_app.command()
def formal(
    out: Path,
    task: list[str] | None = None,
    seed: int = 42,
    fraction: float = 0.5,
    version: str = "v1",
) -> None:
    """Formal languages over bits: a config for each task, `parity_8` and so on."""
    from gmb_hf.hub.datasets import formal_configs

    _build(formal_configs(task or (), data_seed=seed, fraction=fraction), out, "formal", version)


@build_app.command()
def icl(
    out: Path,
    task: list[str] | None = None,
    seed: int = 42,
    fraction: float = 0.5,
    version: str = "v1",
) -> None:
    """In-context tasks: a config for each rule, `linear_p11_k8` and so on, and `linear_real`."""
    from gmb_hf.hub.datasets import in_context_configs

    configs = in_context_configs(task or (), data_seed=seed, fraction=fraction)
    _build(configs, out, "icl", version)


@build_app.command(cls=several("--text", "--license"))
def heldout(
    out: Path,
    text: list[str] | None = None,
    license: list[str] | None = None,
    separator: str = "<|endoftext|>",
    version: str = "v1",
) -> None:
    """Held-out text: a config for each text, its documents in pieces.

    Options:
        separator: What stands between the documents of a file.
    """
    from gmb_hf.hub.datasets import heldout_configs
    from gmb_hf.tasks.text import read_sources

    texts = read_sources(text or (), separator=separator)
    _build(heldout_configs(texts, license or ()), out, "heldout", version)


@build_app.command("runs", cls=several("--runs", "--license"))
def runs_(
    out: Path, runs: list[str] | None = None, license: list[str] | None = None, version: str = "v1"
) -> None:
    """Run logs: a config for each source, from which anybody may judge a score again.

    Options:
        license: [NAME=]LICENCE of run logs, as the Hub names it; Apache-2.0 for what gmb trained.
    """
    from gmb_hf.hub.datasets import runs_configs

    _build(runs_configs(runs or (), license or ()), out, "runs", version)


def _build(configs: Sequence[DatasetConfig], out: Path, kind: str, version: str) -> None:
    from gmb_hf.hub.datasets import ABOUTS, build

    card = build(configs, out, ABOUTS[kind], version=version)
    for config in configs:
        screen.say_whole("config", config.name)
    screen.written([card], following=screen.command("data", "verify", out))


app = App()
app.add_typer(build_app, name="build", help="Write datasets as Parquet with a card.")


@app.command(cls=several("--text"))
def export(
    out: Path,
    task: str | None = None,
    text: list[str] | None = None,
    tokenizer: str | None = None,
    block: int = 256,
    prime: int | None = None,
    seed: int = 42,
    fraction: float = 0.5,
    op_token: str = "shared",
) -> None:
    """Write a task or held-out text as binary shards in the llm.c format, as the protocol's.

    Options:
        out (data): Folder for the shards.
        task: A task, e.g. modular_add or parity_8.
        text: Held-out text instead: [NAME=]FILE, or one of the Hub: wikitext2, ptb, ...
        tokenizer: Of the text: a name on the Hub, a folder, or byte; gpt2 by default.
        block: Tokens of a row, T, from which the batch B follows.
        prime: Modulus of a modular task.
        seed: Seed of the split and the order.
        fraction: Share of rows to train on.
        op_token: shared: one token for all operations; distinct: one each.
    """
    from gmb_hf.tasks.shards import export_shards

    if (task is None) == (not text):
        raise InputError("say what to export: --task NAME, or --text FILE; one of them")
    if text:
        if prime is not None:
            raise InputError("--prime is for --task; a text has none")
        _export_text(text, tokenizer or "gpt2", block, out)
        return
    if tokenizer is not None:
        raise InputError("--tokenizer is for --text; a task brings its own tokens")
    assert task is not None
    try:
        paths = export_shards(task, prime, seed, out, fraction=fraction, op_token=op_token)
    except InputError as error:
        # Shards have the protocol's row length, which is no option here.
        message, _, way_out = str(error).partition(", or a sequence_length of at least")
        if not way_out:
            raise
        raise InputError(f"{message}; shards have rows of the protocol's length") from error
    screen.written(paths, following=f"train on {paths[0]} with any llm.c style trainer")


def _export_text(given: Sequence[str], tokenizer: str, block: int, out: Path) -> None:
    """The shards of texts, and what the protocol prints of them: tokens, and B for rows of T."""
    from gmb_hf.base.errors import positive_int
    from gmb_hf.protocol.language.data import export_texts

    positive_int("--block", block)
    told = export_texts(_texts(given), tokenizer, out)
    columns = [Column("shard", take=lambda one: one["path"].name, shrinks_to=16)]
    counts = ("tokens", "bytes", "documents")
    columns += [Column(name, "{:,}".format, take=itemgetter(name)) for name in counts]
    columns.append(
        Column("bytes/token", "{:.2f}".format, take=lambda one: one["bytes"] / one["tokens"])
    )
    columns.append(Column("B", str, take=lambda one: max(0, one["tokens"] // block - 1)))
    screen.table(Table.of(told, columns), above=True)
    screen.say(f"B = floor(tokens / T) - 1 with T = {block}, of llm.c's -b and -t.", style="dim")
    first = told[0]["path"]
    paths = [path for one in told for path in (one["path"], one["path"].with_suffix(".json"))]
    screen.written(paths, following=f"evaluate on {first} with any llm.c style trainer, -j {first}")


def _texts(given: Sequence[str]) -> Sequence[Text]:
    """Texts as typed; a file may stand without a name, and then has that of its stem."""
    from gmb_hf.tasks.text import read_sources

    return read_sources(
        [f"{Path(word).stem}={word}" if Path(word).is_file() else word for word in given]
    )


@app.command(cls=several("--text"))
def tokenizer(text: list[str], out: Path, vocabulary: int = 1024) -> None:
    """Train a tokenizer of GPT-2's kind (byte-level BPE) on text; nothing is downloaded for it.

    Options:
        text: What it is trained on: [NAME=]FILE, or one of the Hub.
        out (tokenizer): A new folder for it.
        vocabulary: Tokens, the 256 bytes and the end of document included.
    """
    from gmb_hf.protocol.language.data import train_tokenizer

    shown = sys.stderr.isatty() and not output.current().quiet
    made = train_tokenizer(_texts(text), vocabulary, out, show_progress=shown)
    screen.say_whole("tokens", f"{len(made):,}")
    following = f"gmb data export --text {shlex.join(text)} --tokenizer {shlex.quote(str(out))}"
    screen.written([out / "tokenizer.json"], following=f"{following} --out data")


@app.command()
def verify(dataset: str, config: str | None = None, previous: str | None = None) -> None:
    """Hash a dataset anew and compare it with its card; exit 1 where they differ.

    Arguments:
        dataset: A dataset: a folder with its card, or ORG/NAME@REV of the Hub.

    Options:
        config: Only this config.
        previous: An earlier version, every item of which must be here.
    """
    from gmb_hf.hub import cards
    from gmb_hf.hub.datasets import dataset_folder

    folder, only = dataset_folder(dataset)
    with screen.counting("verifying") as done:
        found = cards.verify(folder, config or only, on_done=done)
    for one in found.configs:
        verdict = "differs" if one.faults else "as its card says"
        known = f"{one.name} {one.entry.version} {one.entry.fingerprint}"
        screen.say_whole("config", f"{known} {verdict}")
        screen.notes(one.facts)
    unknown = "the card has no fingerprint of it; it was not verified"
    screen.notes(f"{name}: {unknown}" for name in found.without)
    screen.refuse_faults(found.faults, where=f"{dataset}: ")
    if previous is not None:
        cards.refuse_shrunk(folder, dataset_folder(previous)[0])
        screen.say(f"Everything in {previous} is in {dataset}.")
    arguments = ", ".join(map(json.dumps, (str(folder), found.configs[0].name)))
    call = f"from datasets import load_dataset; print(load_dataset({arguments}))"
    screen.written([], following=shlex.join(["python", "-c", call]))


@app.command()
def push(folder: Path, repo: str, private: bool = False) -> None:
    """Publish a dataset in one commit, if it is what its card says and nothing frozen changes.

    Arguments:
        folder: What `gmb data build` wrote.
    """
    from gmb_hf.hub.datasets import push_dataset

    done = push_dataset(folder, repo, private=private)
    screen.pushed(done, following=f"gmb data verify {repo}@{done.commit}")
