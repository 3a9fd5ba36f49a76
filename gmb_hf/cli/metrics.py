"""`gmb metrics`: the `evaluate` modules, here and on the Hub."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _metrics() -> None:
    """Metrics as `evaluate` modules."""


@app.command("list")
def list_() -> None:
    """Every module with its kind and what it answers."""
    from gmb_hf.cli.screen import say_whole
    from gmb_hf.metrics import module, names

    modules = [module(name) for name in names()]
    width = max(len(one.name) for one in modules)
    for one in modules:
        print(f"{one.name:<{width}}  {one.kind:<11}  {one.summary}")
    say_whole("next", "gmb metrics install")


@app.command()
def install() -> None:
    """Make `evaluate.load("gmb_operationality")` work from any folder, without the Hub."""
    from gmb_hf.cli.screen import say_whole
    from gmb_hf.metrics import install as install_all

    paths = install_all()
    # The folder between is named by a hash, which helps nobody.
    say_whole("wrote", str(paths[0].parents[2]))
    for path in paths:
        say_whole("", path.stem)
    say_whole("next", "python -c 'import evaluate; evaluate.load(\"gmb_operationality\")'")


@app.command()
def push(
    org: Annotated[str, typer.Option(help="User or organisation of the Hub.")],
    name: Annotated[
        list[str] | None, typer.Option(help="Only this module; may be given several times.")
    ] = None,
    requirement: Annotated[
        str | None,
        typer.Option(help="How a Space installs this package, e.g. 'gmb-hf[apps] @ git+https://…'"),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make new Spaces private.")] = False,
) -> None:
    """Publish each module as a Space, from which `evaluate.load("ORG/NAME")` loads it."""
    from gmb_hf.cli.screen import say_whole
    from gmb_hf.hub.client import push_space
    from gmb_hf.metrics import module, names

    modules = [module(one) for one in name or names()]
    for one in modules:
        done = push_space(one.folder, f"{org}/{one.name}", requirement=requirement, private=private)
        say_whole("pushed", f"{done.url} ({done.commit[:8]})")
    call = f"import evaluate; evaluate.load({f'{org}/{modules[0].name}'!r})"
    say_whole("next", f"python -c {shlex.quote(call)}")
