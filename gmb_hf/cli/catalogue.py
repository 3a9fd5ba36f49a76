"""`gmb indicators`, and `gmb metrics`: the `evaluate` modules, here and on the Hub."""

from __future__ import annotations

import shlex

from rich.padding import Padding
from rich.text import Text

from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import screen
from gmb_hf.cli.options import App

_LABELS = {"label-free": "", "label-using": "test", "task-aware": "task"}


def indicators(name: str | None = None, runs: list[str] | None = None) -> None:
    """List the indicators, a line each; with a name, everything about one.

    Options:
        runs: List only those that these logs can feed.

    Arguments:
        name (indicator): Show one indicator in full.
    """
    from gmb_hf.indicators.catalogue import available, get, names

    if name is None:
        known = names()
        if runs:
            from gmb_hf.hub.sources import read_runs

            known = available(read_runs(runs))
        columns = (
            Column("indicator", take="name"),
            Column("family", take="family"),
            Column("labels", take=lambda entry: _LABELS[entry.kind]),
            Column("what it is", take="summary", shrinks_to=12),
        )
        screen.table(Table.of(map(get, known), columns))
        screen.tell("indicators", n=len(known))
        screen.say_whole("next", "gmb indicators NAME")
        return
    entry = get(name)
    facts = {
        "family": entry.family,
        "needs": ", ".join(entry.needs),
        "sees test labels": "yes: an oracle, no monitor" if entry.sees_test_labels else "no",
        "needs held-out inputs": "yes" if entry.needs_held_out_inputs else "no",
        "kind": f"{entry.kind}, an alarm rule of its own" if entry.rule else entry.kind,
        "orientation": f"{entry.orientation:+d}",
        "parameters": ", ".join(f"{k}={v}" for k, v in entry.parameters.items()) or "none",
        "source": entry.source,
    }
    screen.answered(indicator=entry.name, summary=entry.summary, **facts)
    console = screen.console()
    console.print(Text.assemble((entry.name, "bold"), f": {entry.summary}"))
    for key, value in facts.items():
        console.print(Padding(Text(f"{key}: {value}"), (0, 0, 0, 2)))
    screen.say_whole("next", f"gmb evaluate --runs RUNS --score {name} --horizon H --safe-gap G")


# `gmb metrics`.

app = App()


@app.command("list")
def list_() -> None:
    """Every module with its kind and what it answers."""
    from gmb_hf.jobs.metrics import module, names

    modules = [module(name) for name in names()]
    width = max(len(one.name) for one in modules)
    for one in modules:
        line = Text(f"{one.name:<{width}}  {one.kind:<11}  {one.summary}")
        screen.console().print(line, soft_wrap=True)
    about = ("name", "kind", "summary")
    screen.answered(modules=[{key: getattr(one, key) for key in about} for one in modules])
    screen.say_whole("next", "gmb metrics install")


@app.command()
def install() -> None:
    """Make `evaluate.load("gmb_operationality")` work from any folder, without the Hub."""
    from gmb_hf.jobs.metrics import install as install_all

    paths = install_all()
    # The folder between is named by a hash, which helps nobody.
    screen.say_whole("wrote", str(paths[0].parents[2]))
    screen.answered(modules=[path.stem for path in paths])
    for path in paths:
        screen.say_whole("", path.stem)
    screen.say_whole("next", "python -c 'import evaluate; evaluate.load(\"gmb_operationality\")'")


@app.command()
def push(
    org: str, name: list[str] | None = None, requirement: str | None = None, private: bool = False
) -> None:
    """Publish each module as a Space, from which `evaluate.load("ORG/NAME")` loads it.

    Options:
        org: User or organisation of the Hub.
        name: Only this module; may be given several times.
        requirement: How a Space installs this package, e.g. 'gmb-hf[apps] @ git+https://…'
        private: Make new Spaces private.
    """
    from gmb_hf.base.repositories import push_space
    from gmb_hf.jobs.metrics import module, names

    modules = [module(one) for one in name or names()]
    for one in modules:
        done = push_space(one.folder, f"{org}/{one.name}", requirement=requirement, private=private)
        screen.say_whole("pushed", f"{done.url} ({done.commit[:8]})")
    call = f"import evaluate; evaluate.load({f'{org}/{modules[0].name}'!r})"
    screen.say_whole("next", f"python -c {shlex.quote(call)}")
