"""Panels fetched into the cache, and the copy with fewer columns that the package ships."""

from __future__ import annotations

import functools
import http.server
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hub_client import Terminal
from hub_store import Hub

from gmb_hf import Design, InputError, RunLog, preset
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.design import ledger
from gmb_hf.design.ledger import recognised
from gmb_hf.hub import fetch as fetching
from gmb_hf.hub import panels
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import RECIPES, Recipe

NAME = "made-up"
COLUMNS = ("test_acc", "train_acc", "embedding_gini", "embedding_norm", "embedding_rank")
REPOSITORY = Path(__file__).resolve().parents[2] / panels.FOLDER


def part(log: RunLog) -> RunLog:
    values = {name: log.panel(name).values for name in COLUMNS}
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)


@pytest.fixture
def served(
    commands: Terminal,
    design: Design,
    explore_log: RunLog,
    held_out_log: RunLog,
    monkeypatch: pytest.MonkeyPatch,
) -> FrozenPanel:
    """In ./served, where no panel is looked up; the cache is ./cache, the package ships none."""
    monkeypatch.delenv(panels.PLACE, raising=False)
    monkeypatch.setenv("GMB_CACHE", "cache")
    monkeypatch.setattr(ledger, "SHIPPED", Path("shipped"))
    Path("panels").mkdir()
    parts = {"explore": part(explore_log), "heldout": part(held_out_log)}
    seeds = {"seeds_explore": list(range(30)), "seeds_eval": list(range(100, 140))}
    recipe = Recipe(NAME, "Is it fetched", lambda: preset("smoke"), 200)
    monkeypatch.setitem(RECIPES, NAME, recipe)
    place = Path("served") / NAME
    made = panels.freeze(recipe, parts, design.replace(**seeds), place, command="gmb made it")
    looked = "locks:\n- {lock_hash: a, content: '', date: '2026-01-01'}\n"
    (place / "looks.yaml").write_text(looked)
    return made


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/refused"):
            self.send_error(403)
        else:
            super().do_GET()


@pytest.fixture
def server(served: FrozenPanel) -> Iterator[str]:
    """The address of a loopback server of ./served."""
    handler = functools.partial(_Quiet, directory="served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as one:
        thread = threading.Thread(target=one.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{one.server_port}"
        one.shutdown()
        thread.join()


def fetched_from(source: str, commands: Terminal, served: FrozenPanel) -> None:
    said = commands.done("panel", "fetch", NAME, "--from", source)
    assert f"panel '{NAME}' is here, 70 runs" in said
    panel = FrozenPanel.find(NAME)
    assert panel.folder == Path("cache/panels") / NAME
    assert panel.faults() == []
    assert len(panel.ledger().locks) == 1  # the ledger that it was published with
    for file in ("README.md", *panel.record.files, "looks.yaml"):
        assert (panel.folder / file).read_bytes() == (served.folder / file).read_bytes()


@pytest.mark.parametrize("source", ["served", f"served/{NAME}", f"served/{NAME}/"])
def test_from_a_folder(source: str, served: FrozenPanel, commands: Terminal) -> None:
    fetched_from(source, commands, served)
    said = commands.done("panel", "list")
    assert "cache/panels" in said
    evaluating = ("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini", "--no-figures")
    assert "2 of 200 locks have looked" in commands.done(*evaluating)


@pytest.mark.parametrize("tail", ["/README.md", "", "/"])
def test_from_a_url(tail: str, served: FrozenPanel, server: str, commands: Terminal) -> None:
    fetched_from(f"{server}/{NAME}{tail}", commands, served)
    assert FrozenPanel.find(NAME).entry.content_hash == served.entry.content_hash


def test_from_the_hub(served: FrozenPanel, hub: Hub, commands: Terminal, monkeypatch) -> None:
    with monkeypatch.context() as there:
        there.setenv(panels.PLACE, "served")
        commands.done("panel", "push", "acme/panels")
    own = "looks.yaml"
    before = (served.folder / own).read_bytes()
    (served.folder / own).write_bytes(
        hub.repositories["dataset:acme/panels"].files[f"{NAME}/{own}"]
    )
    fetched_from("hf://datasets/acme/panels", commands, served)
    (served.folder / own).write_bytes(before)
    message = commands.refused("panel", "fetch", "made-op", "--from=hf://datasets/acme/panels")
    assert message == (
        f"acme/panels@main: panel 'made-op' is unknown; known: {NAME}. Did you mean '{NAME}'?"
    )


def test_what_is_there_is_left(served: FrozenPanel, commands: Terminal) -> None:
    commands.done("panel", "fetch", NAME, "--from=served")
    assert "is here" in commands.done("panel", "fetch", NAME)  # without --from
    assert "is here" in commands.done("panel", "fetch", NAME, "--from=served")
    # A damaged copy is mended.
    path = Path("cache/panels", NAME, "explore.parquet")
    path.write_bytes(b"x")
    commands.done("panel", "fetch", NAME, "--from=served")
    assert FrozenPanel.find(NAME).faults() == []


def test_with_a_folder_of_panels_they_are_kept_there(
    served: FrozenPanel, commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, "mine")
    commands.done("panel", "fetch", NAME, "--from=served")
    assert FrozenPanel.find(NAME).folder == Path("mine", NAME)


def test_the_order_of_places(served: FrozenPanel, commands: Terminal) -> None:
    shutil.copytree(served.folder, Path("shipped", NAME))
    assert FrozenPanel.find(NAME).folder == Path("shipped", NAME)
    commands.done("panel", "fetch", NAME, "--from=served")
    assert FrozenPanel.find(NAME).folder == Path("cache/panels", NAME)
    shutil.copytree(served.folder, Path("panels", NAME))
    assert FrozenPanel.find(NAME).folder == Path("panels", NAME)


def test_a_name_that_nobody_knows(served: FrozenPanel, commands: Terminal) -> None:
    message = commands.refused("panel", "fetch", "made-op")
    assert message.startswith("panel 'made-op' is unknown; known: add-29, ")
    assert message.endswith(f"Did you mean '{NAME}'?")
    assert commands.refused("panel", "fetch", "made-op", "--from=served") == (
        f"served: panel 'made-op' is unknown; known: {NAME}. Did you mean '{NAME}'?"
    )
    message = commands.refused("panel", "fetch", "../made-up", "--from=served")
    assert message.startswith("panel '../made-up' is unknown; known: ")
    # It is known, but nowhere here, and nobody said where it is.
    message = commands.refused("panel", "fetch", "sub-29")
    assert message.startswith("panel 'sub-29': is not in ")
    assert "fetch it: gmb panel fetch sub-29 --from SOURCE" in message


def test_another_panel_of_the_name(
    served: FrozenPanel, commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = served.entry.content_hash
    wrong = ("panel", "fetch", NAME, "--from=served")
    assert commands.refused(*wrong, f"--hash={'0' * 64}") == (
        f"served/{NAME}: is another panel '{NAME}': its content hash is {mark[:16]}, --hash says "
        f"{'0' * 16}"
    )
    published = Recipe(NAME, "Is it", lambda: preset("smoke"), published="1" * 64)
    monkeypatch.setitem(RECIPES, NAME, published)
    assert commands.refused(*wrong) == (
        f"served/{NAME}: is another panel '{NAME}': its content hash is {mark[:16]}, the published "
        f"panel has {'1' * 16}; for this one say --hash {mark}"
    )
    assert not Path("cache/panels", NAME).exists()
    commands.done(*wrong, f"--hash={mark}")
    monkeypatch.undo()


def test_the_cache_holds_another_one(
    served: FrozenPanel, commands: Terminal, explore_log: RunLog
) -> None:
    commands.done("panel", "fetch", NAME, "--from=served")
    recipe, design = RECIPES[NAME], served.design()
    other = panels.freeze(
        recipe, {"explore": explore_log}, design, Path("other", NAME), command="by hand"
    )
    assert commands.refused("panel", "fetch", NAME, "--from=other") == (
        f"cache/panels/{NAME}: holds another panel of this name (content hash "
        f"{served.entry.shown}, that of other/{NAME} is {other.entry.shown}); remove this folder "
        "to fetch it"
    )
    assert FrozenPanel.find(NAME).entry == served.entry


def test_a_folder_that_is_no_panel(served: FrozenPanel, commands: Terminal) -> None:
    fetching_from = ("panel", "fetch", NAME)
    assert commands.refused(*fetching_from, "--from=nowhere") == (
        "--from nowhere: is no folder here; name a folder, hf://datasets/ORG/NAME@REV, or the URL "
        "of a panel's README.md (http:// or https://)"
    )
    Path("bare").mkdir()
    assert commands.refused(*fetching_from, "--from=bare") == (
        f"bare: holds no panel '{NAME}': there is no README.md"
    )
    Path("bare/README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    assert commands.refused(*fetching_from, "--from=bare") == (
        "bare/README.md: is no card of a panel, it has no gmb_panel"
    )


@pytest.mark.parametrize("from_url", [False, True])
def test_files_that_are_not_what_the_card_says(
    from_url: bool, served: FrozenPanel, server: str, commands: Terminal
) -> None:
    where = f"{server}/{NAME}" if from_url else f"served/{NAME}"
    words = ("panel", "fetch", NAME, "--from", where)
    path = served.folder / "heldout.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"!")
    message = commands.refused(*words)
    assert message.startswith(f"{where}/heldout.parquet: is not what the card says (SHA-256 ")
    assert message.endswith("; fetch it again, or from elsewhere")
    path.unlink()
    assert commands.refused(*words) == (
        f"{where}/heldout.parquet: is missing, the card of the panel names it"
    )
    path.write_bytes(content)
    card = served.card.path
    text = card.read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if "x_checksum" not in line)
    outside = text.replace("    heldout.parquet: ", "    ../heldout.parquet: ")
    assert outside != text
    card.write_text(outside, encoding="utf-8")
    assert commands.refused(*words) == (
        f"{where}/README.md: names '../heldout.parquet', which is no file of a panel"
    )
    assert not Path("cache/panels", NAME).exists()


def test_a_url_that_serves_nothing(
    served: FrozenPanel, server: str, commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("panel", "fetch", NAME, "--from")
    assert commands.refused(*words, f"{server}/gone/README.md") == (  # status 404
        f"{server}/gone: holds no panel '{NAME}': there is no README.md"
    )
    assert commands.refused(*words, f"{server}/refused/README.md") == (
        f"{server}/refused/README.md: the server refused (status 403)"
    )
    with socket.socket() as free:  # nobody listens
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        message = commands.refused(*words, f"{address}/x/README.md")
    assert message.startswith(f"{address}/x/README.md: cannot be reached: ")
    assert message.endswith("; run the same command again when it can")
    monkeypatch.setattr(fetching, "MOST_FILE", 2**20 // 100)
    message = commands.refused(*words, f"{server}/{NAME}")
    assert message.endswith(".parquet: is larger than 0 MB, the most that is fetched")


def test_an_address_that_the_hub_does_not_know(
    served: FrozenPanel, commands: Terminal, hub: Hub
) -> None:
    message = commands.refused("panel", "fetch", NAME, "--from=hf://datasets/acme/none")
    assert message.startswith("acme/none@main: the Hub refused: there is no such repository")
    assert commands.refused("panel", "fetch", NAME, "--from=hf://acme") == (
        "--from 'hf://acme': no dataset of the Hub; write hf://datasets/ORG/NAME@REV"
    )


# Copies with fewer columns.

FEW = ("test_acc", "train_acc", "embedding_gini", "embedding_rank")
"""Controls need the training accuracy."""


@pytest.fixture
def fewer(served: FrozenPanel) -> FrozenPanel:
    return panels.cut(served, ["embedding_gini", "embedding_rank"], Path("shipped", NAME))


def test_a_cut_is_the_same_runs(served: FrozenPanel, fewer: FrozenPanel) -> None:
    assert fewer.faults() == []
    assert fewer.columns == {"run", "step", "seed", *FEW}
    assert fewer.entry.content_hash != served.entry.content_hash
    assert fewer.whole == served.whole == served.entry.content_hash
    about = fewer.record.x_cut
    assert about is not None
    assert (set(about.columns), about.of_columns) == (set(FEW), 5)
    assert [one.name for one in fewer.design().candidates] == ["embedding_gini", "embedding_rank"]
    for name in ("explore", "heldout"):
        for column in FEW:
            few, all_ = (one.read(name).panel(column).values for one in (fewer, served))
            np.testing.assert_array_equal(few, all_)
    text = fewer.card.path.read_text(encoding="utf-8")
    assert "**This is a cut**: 4 of the 5 of the panel" in text
    assert served.entry.content_hash in text


def test_the_ledger_of_a_cut_is_that_of_the_whole(
    served: FrozenPanel, fewer: FrozenPanel, commands: Terminal
) -> None:
    assert fewer.shared.path == served.shared.path
    evaluating = ("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini", "--no-figures")
    assert "2 of 200 locks have looked" in commands.done(*evaluating)
    assert len(served.ledger().locks) == 2
    # Each recognises the runs of the other: float32 or float64, with all columns or few.
    for log in (served.read("heldout"), fewer.read("heldout")):
        found = {one.path for one in recognised(log, "test_acc")}
        assert found == {served.shared.path}
    commands.done("panel", "fetch", NAME, "--from=served")
    assert FrozenPanel.find(NAME).entry == served.entry  # the cache comes first
    assert FrozenPanel.find(NAME, fewer.entry.fingerprint).entry == fewer.entry
    assert "2 of 200 locks have looked" in commands.done(*evaluating, "--out=again")


def test_verdicts_are_those_of_the_whole(served: FrozenPanel, fewer: FrozenPanel) -> None:
    design, said = fewer.design(), []
    for panel in (served, fewer):
        lock, _ = make_lock(design, panel.read("explore"))
        results = evaluate_lock(lock, panel.read("heldout"), counted=True).results
        said.append([item.plain() for item in results.indicators])
    assert said[0] == said[1]


def test_verdicts_of_what_the_package_ships_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []
    for place in (panels.SHIPPED, REPOSITORY):
        monkeypatch.setenv(panels.PLACE, str(place))
        panel = FrozenPanel.find("quick-29")
        few = ("embedding_gini", "effective_rank", "weight_norm_drop", "test_accuracy")
        own = {one.name: one.plain() for one in panel.design().candidates}
        chosen = {"candidates": [own[name] for name in few]}
        design = panel.design().replace(**chosen, null_draws=200, bootstrap_draws=200)
        lock, _ = make_lock(design, panel.read("explore"))
        results = evaluate_lock(lock, panel.read("heldout"), counted=True).results
        said.append([item.plain() for item in results.indicators])
    assert said[0] == said[1]
    assert len(said[0]) == len(few) + 3  # and the controls


def test_what_a_cut_lacks_is_named(
    served: FrozenPanel, fewer: FrozenPanel, commands: Terminal
) -> None:
    assert commands.refused("panel", "fetch", NAME) == (
        f"panel '{NAME}': the package ships 4 of the 5 columns of the panel with the hash "
        f"{served.entry.shown}; say where the whole one is: gmb panel fetch {NAME} --from "
        "hf://datasets/ORG/NAME, a folder, or the URL of its README.md"
    )
    message = commands.refused("evaluate", f"--runs=panel:{NAME}", "--score=embedding_norm_drop")
    assert message.endswith(
        f"; no panel here has it; of panel:{NAME} this is 4 of the 5 columns of the panel with "
        f"the hash {served.entry.shown}, which gmb panel fetch {NAME} --from SOURCE brings"
    )
    assert f"cut     4 of the 5 columns of the panel with the hash {served.entry.shown}" in (
        commands.done("panel", "show", NAME)
    )
    assert "(4 of the 5 columns" in " ".join(commands.done("panel", "list").split())
    with pytest.raises(InputError, match="candidate 'embedding_gin' is unknown"):
        panels.cut(served, ["embedding_gin"], Path("x"))


@pytest.mark.parametrize("recipe", [one for one in RECIPES.values() if one.shipped])
def test_what_the_package_ships_is_cut_from_the_panel_of_the_repository(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make panels` writes it anew where this fails and its folder is removed."""
    shipped = panels.SHIPPED / recipe.name
    assert sum(path.stat().st_size for path in shipped.iterdir()) < 3e6
    monkeypatch.setenv(panels.PLACE, str(REPOSITORY))
    whole = FrozenPanel.find(recipe.name)
    again = panels.cut(whole, recipe.shipped, tmp_path / recipe.name)
    monkeypatch.setenv(panels.PLACE, str(panels.SHIPPED))
    held = FrozenPanel.find(recipe.name)
    assert held.faults() == []
    assert (held.entry.content_hash, held.whole) == (again.entry.content_hash, recipe.published)
    assert held.design().plain() == again.design().plain()
    looks = [(one / "looks.yaml").read_bytes() for one in (shipped, whole.folder)]
    assert looks[0] == looks[1]


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in REPOSITORY.glob("*/README.md"))
)
def test_recipes_know_the_hash_of_the_panels_of_the_repository(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, str(REPOSITORY))
    assert FrozenPanel.find(name).entry.content_hash == RECIPES[name].published
