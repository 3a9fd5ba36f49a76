"""`gmb submit` and `gmb leaderboard`: scores of anybody on frozen panels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gmb_hf.cli import options, screen
from gmb_hf.cli.options import App, MoreRuns, Runs, argument, option, product
from gmb_hf.errors import InputError

app = App()

Folders = Annotated[list[Path], argument("Folders of submissions.", metavar="FOLDER")]


def submit(
    name: Annotated[str, argument("Of the submission, and of its folder.")],
    runs: Runs,
    lock: Annotated[Path, option("The lock, made on the explore runs among them.")],
    results: Annotated[Path, option("Results of its evaluation: the file or the folder.")],
    author: Annotated[str, option("Who submits it.")],
    claim: Annotated[str, option("What the score is, in a line.")],
    code: Annotated[
        list[str], option("https://REPOSITORY@COMMIT, or a file to carry along; several times.")
    ],
    more_runs: MoreRuns = None,
    paper: Annotated[str, option("Where one can read of it: an address, or a title.")] = "",
    panel: Annotated[str | None, option("Of own runs: the panel whose law they follow.")] = None,
    task_aware: Annotated[
        bool, option("The columns know the operation, or the Fourier basis.", "--task-aware")
    ] = False,
    out: Annotated[Path, option("Folder of submissions.")] = Path("submissions"),
) -> None:
    """Make the folder of a submission to the leaderboard from a lock and its results."""
    from gmb_hf.leaderboard.submission import submit as make

    made = make(
        name,
        runs=options.sources(runs, more_runs),
        lock=lock,
        results=results,
        author=author,
        claim=claim,
        paper=paper,
        code=code,
        panel=panel,
        task_aware=task_aware,
        out=out,
    )
    paths = sorted(path for path in made.folder.rglob("*") if path.is_file())
    screen.written(paths, following=screen.command("leaderboard", "check", made.folder))


@app.command()
def check(folders: Folders) -> None:
    """Compute submissions anew from the frozen panel; exit code 2 where a number differs."""
    from gmb_hf.leaderboard.check import check as recompute

    faults: list[str] = []
    checked: list[dict[str, object]] = []
    screen.answered(submissions=checked)
    for folder in folders:
        with screen.counting(f"checking {folder.name}"):
            found = recompute(folder)
        checked.append({"folder": folder, **vars(found)})
        for fault in found.faults:
            screen.say_whole("fault", fault)
        faults += found.faults
        if found.record is None:
            continue
        screen.say(f"{folder}: {found.record.numbers:,} values were computed anew and are equal.")
        for what in found.not_checked:
            screen.say(f"- not checked: {what}")
    if faults:
        more = f" ({len(faults) - 1} more, listed above)" if len(faults) > 1 else ""
        raise InputError(f"{faults[0]}{more}")
    parent = folders[0].parent
    screen.written(
        [folder / "check.json" for folder in folders],
        following=screen.command("leaderboard", "build", parent, out="site"),
    )


@app.command()
def build(
    submissions: Annotated[Path, argument("The folder of submissions.")],
    out: Annotated[Path, product("Folder of the site, which is made anew.", "site")],
    trial: Annotated[Path | None, option("What gmb trial wrote, to be shown with them.")] = None,
) -> None:
    """Make the static site of submissions that were checked, and of a trial; a Space as it is."""
    from gmb_hf.leaderboard.board import build_board

    made = build_board(submissions, out, trial=trial)
    screen.say(made.sentence)
    screen.notes(f"left out: {fault}" for fault in made.left_out)
    screen.written(
        [made.index, out / "README.md"],
        following=f"hf upload ORG/gmb-leaderboard {out} --repo-type space",
    )
