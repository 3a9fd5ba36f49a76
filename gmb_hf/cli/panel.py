"""`gmb panel`, `trial`, `demo`, `submit`, `leaderboard`: frozen runs on which scores compare.

Arguments:
    name: Of the panel, e.g. sub-29; gmb panel list names them.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import number
from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import rounds as of_rounds
from gmb_hf.cli import screen
from gmb_hf.cli.options import App, several

app, leaderboard = App(), App()
leaderboard.add_typer(
    of_rounds.app, name="round", help="Scores entered by hash, judged on runs trained afterwards."
)
SubmitCommand = several("--runs")


@app.command("list")
def list_() -> None:
    """Every panel, its question, and whether it lies here."""
    from gmb_hf.design.ledger import folder_of_panels
    from gmb_hf.hub.panels import FrozenPanel, here, names
    from gmb_hf.hub.recipes import RECIPES

    rows, known, folders = [], [], dict[str, None]()
    for name in names():
        panel = FrozenPanel.find(name) if name in here() else None
        asks = RECIPES[name].asks if panel is None else panel.record.asks
        count = panel and panel.entry.item_count
        known.append(dict[str, object](name=name, runs=count, asks=asks))
        looked = len(panel.ledger().locks) if panel and panel.judged else None
        allowed = panel and panel.record.locks_allowed
        known[-1] |= {"locks": looked, "locks_allowed": allowed}
        if panel is not None:
            known[-1] |= {"folder": panel.folder, "cut": panel.record.x_cut}
            folders[str(panel.folder.parent)] = None
            asks += f" ({panel.said_of_cut})" if panel.said_of_cut else ""
        runs = f"{panel.entry.item_count:,}" if panel else "not here"
        rows.append((name, runs, "" if looked is None else f"{looked} of {allowed}", asks))
    screen.answered(panels=known, folder=folder_of_panels())
    if not rows:
        screen.say("No panel is frozen yet: none lies in the folder, and none can be built.")
        screen.say_whole("folder", str(folder_of_panels()))
        screen.say_whole("next", "gmb run --preset quick --out runs/quick")
        return
    question = Column("question", shrinks_to=20, wraps=True)
    looks = Column("locks that looked", align="r", shrinks_to=10)
    columns = (Column("panel"), Column("runs", align="r"), looks, question)
    screen.table(Table(columns, rows))
    for folder in folders:
        screen.say_whole("folder", folder)
    screen.say_whole("next", "gmb panel show NAME")


@app.command()
def show(name: str) -> None:
    """What a panel holds, how its runs grok, and who has looked at it."""
    from gmb_hf.hub.curves import CURVES
    from gmb_hf.hub.panels import HELD_OUT, FrozenPanel

    panel = FrozenPanel.find(name)
    design, record = panel.design(), panel.record
    screen.say(record.asks + "?")
    screen.say_whole("folder", str(panel.folder))
    screen.say_whole("hash", panel.entry.content_hash)
    if panel.said_of_cut:
        screen.say_whole("cut", panel.said_of_cut)
    logs = {part: panel.read(part) for part in panel.parts}
    screen.answered(
        name=name,
        asks=record.asks,
        folder=panel.folder,
        hash=panel.entry.content_hash,
        cut=panel.record.x_cut,
        parts={
            part: {"runs": len(log.runs), "rows": log.table.num_rows, "columns": log.observables}
            for part, log in logs.items()
        },
        horizon=design.horizon,
        safe_gap=design.safe_gap,
        scores=[candidate.name for candidate in design.candidates],
        locks=len(panel.ledger().locks),
        locks_allowed=record.locks_allowed,
        curves=record.curves,
        locked=record.x_locked,
    )
    for sentence in panel.said_of_lock:
        screen.say_whole("order", sentence)
    for part, log in logs.items():
        facts = (
            f"{len(log.runs):,} runs, {log.table.num_rows:,} rows, {len(log.observables)} columns"
        )
        screen.say_whole(part, facts)
    screen.say_whole("horizon", f"{design.horizon:,} steps; safe gap {design.safe_gap:,}")
    screen.say_whole("scores", f"{len(design.candidates)} in its design")
    if HELD_OUT in panel.parts:
        screen.say_whole("locks", panel.shared.said())
        screen.say_whole("ledger", str(panel.shared.path))
    if record.curves is not None:
        columns = (Column("its curves, medians over runs", shrinks_to=20), Column("", align="r"))
        values = [(text, number(getattr(record.curves, key))) for key, text in CURVES.items()]
        screen.table(Table(columns, values), above=True)
    judging = f"lock --runs panel:{name} --out lock.yaml"
    if HELD_OUT not in panel.parts and not panel.awaits_lock:
        judging = f"evaluate --runs panel:{name}"
    screen.say_whole("next", f"gmb {judging}")


@app.command()
def build(
    name: str,
    out: Path | None = None,
    work: Path | None = None,
    runs: list[str] | None = None,
    part: str | None = None,
    lock: Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
) -> None:
    """Train the runs of a panel and freeze them; the same command goes on where it stopped.

    Options:
        out: Its folder; by default panels/NAME.
        work: Where its runs are trained; it resumes.
        runs: Logs of others, for a panel that is made of them.
        part: explore, or then heldout, which is trained after --lock; both if not given.
        lock: A lock on the explore part, made before any held-out run is trained.
    """
    from gmb_hf.hub.panels import build as build_panel

    panel = build_panel(name, out, work, runs=runs, part=part, lock=lock, device=device, jobs=jobs)
    others = "" if panel.record.credit else "; elsewhere, others have the same configuration"
    screen.say(f"{panel.entry.item_count:,} runs are frozen{others}.")
    for sentence in panel.said_of_lock:
        screen.say(sentence)
    following = f"gmb panel show {name}"
    if panel.awaits_lock:
        following = f"gmb lock --runs panel:{name} --out lock.yaml"
    screen.written(
        [panel.card.path, *(panel.folder / file for file in panel.record.files)],
        following=following,
    )


@app.command()
def fetch(name: str, source: str | None = None, hash: str | None = None) -> None:
    """Fetch a panel into the user's cache, where panel:NAME finds it; checked by its hashes.

    Options:
        source, --from (SOURCE): hf://datasets/ORG/NAME@REV, a folder, or the URL of the panel's
            README.md.
        hash: The content hash that it must have; by default that of the published panel.
    """
    from gmb_hf.hub.fetch import fetch as fetch_panel

    panel = fetch_panel(name, source, content_hash=hash)
    size = sum((panel.folder / file).stat().st_size for file in panel.record.files)
    screen.say(f"panel {name!r} is here, {panel.entry.item_count:,} runs, {size / 1e6:.1f} MB.")
    screen.answered(name=name, folder=panel.folder, hash=panel.entry.content_hash)
    screen.say_whole("folder", str(panel.folder))
    screen.say_whole("hash", panel.entry.content_hash)
    screen.say_whole("next", f"gmb panel show {name}")


@app.command()
def verify(name: str | None = None) -> None:
    """Compare every byte of a panel with the hashes of its card; exit 1 where one differs.

    Arguments:
        name: Of the panel; every one that is here by default.
    """
    from gmb_hf.hub.panels import FrozenPanel, here

    faults: list[str] = []
    for one in [name] if name else here():
        panel = FrozenPanel.find(one)
        found = panel.faults()
        said = "as its card says" if not found else "NOT as its card says"
        screen.say_whole("panel", f"{one}: {said}")
        faults += found
    screen.refuse_faults(faults, " in panels")
    screen.say_whole("next", f"gmb lock --runs panel:{name or 'NAME'} --out lock.yaml")


@app.command()
def push(repo: str, name: list[str] | None = None, private: bool = False) -> None:
    """Publish panels as one dataset, a config each, in one commit.

    Options:
        name: Only this panel; several times for several.
    """
    from gmb_hf.design.ledger import folder_of_panels
    from gmb_hf.hub.panels import here, push_panels

    chosen = name or list(here(folder_of_panels()))
    done = push_panels(chosen, repo, private=private)
    following = f"gmb evaluate --runs hf://datasets/{repo}@{done.commit}/{chosen[0]}"
    screen.pushed(done, following=following)


def trial(out: Path, panels: str = "all", figures: bool = True, jobs: int | None = None) -> None:
    """Lock every signal on each panel's explore runs, and judge it once on the held-out ones.

    Options:
        out (trial): Folder for all of it; an earlier start resumes.
        panels: Names with commas, or all.
        jobs: Panels judged at a time; one a core if not given.
    """
    from gmb_hf.jobs.trial import trial as hold
    from gmb_hf.report.answer import KINDS

    found = hold(
        [name.strip() for name in panels.split(",")],
        out,
        figures=figures,
        jobs=jobs,
        counting=screen.counting,
    )
    columns = (
        Column("panel"),
        Column("kind"),
        Column("best signal", shrinks_to=16),
        Column("detected", number),
        Column("false", number),
        Column("chance", number),
        Column("label", shrinks_to=12),
    )
    rows = []
    for panel in found.panels:
        for kind in KINDS:
            own = [row for row in found.rows if (row.panel, row.kind) == (panel, kind)]
            best = max(own, key=lambda row: row.at.detection_rate or 0.0, default=None)
            if best is not None:
                worth = best.at.detection_rate, best.at.false_alarm_rate, best.at.chance
                rows.append((panel, kind, best.item.name, *worth, best.item.label))
    screen.table(Table(columns, rows))
    screen.written(found.paths, following=screen.command("panel", "show", found.panels[0]))


def demo(
    out: Path,
    panel: str = "quick-29",
    seeds: str = "700000:700006",
    train: bool = True,
    figures: bool = True,
) -> None:
    """Judge a frozen panel, then train a few fresh runs and watch them with what passed.

    Options:
        panel (panel): The panel that is judged.
        out (runs/demo): Folder for all of it; an earlier start resumes.
        seeds: Fresh ones, trained and watched.
        train: Train and watch fresh runs, which needs torch; else only judge the panel.
    """
    from gmb_hf.jobs.demo import demo as hold
    from gmb_hf.jobs.demo import watched_table

    found = hold(
        out,
        panel=panel,
        seeds=seeds,
        train=train,
        figures=figures,
        counting=screen.counting,
        on_verdicts=lambda results: screen.verdicts(results, out / panel / "report.md"),
        say=screen.say,
    )
    screen.answered(acting=found.acting, watched=found.watched)
    if not train:
        lock = screen.command("lock", runs=f"panel:{panel}", out=Path("lock.yaml"))
        screen.written(found.paths, following=lock)
        return
    screen.say(f"Fresh runs, watched with {', '.join(found.acting)}:")
    screen.table(watched_table(found.watched), above=True)
    script = next((path for path in found.paths if path.suffix == ".py"), None)
    following = screen.command("run", preset="quick", out=Path("runs/quick"))
    if script is not None:  # a training of one's own, watched by the same lock
        following = shlex.join(["python", str(script)])
    screen.written(found.paths, following=following)


# Scores of anybody on these panels.


def submit(
    name: str,
    runs: list[str],
    lock: Path,
    results: Path,
    author: str,
    claim: str,
    code: list[str],
    paper: str = "",
    panel: str | None = None,
    task_aware: bool = False,
    out: Path = Path("submissions"),
) -> None:
    """Make the folder of a submission to the leaderboard from a lock and its results.

    Arguments:
        name: Of the submission, and of its folder.

    Options:
        lock: The lock, made on the explore runs among them.
        results: Results of its evaluation: the file or the folder.
        author: Who submits it.
        claim: What the score is, in a line.
        code: https://REPOSITORY@COMMIT, or a file to carry along; several times.
        paper: Where one can read of it: an address, or a title.
        panel: Of own runs: the panel whose configuration they have.
        task_aware: The columns know the operation, or the Fourier basis.
        out: Folder of submissions.
    """
    from gmb_hf.hub.leaderboard.submission import submit as make

    made = make(
        name,
        runs=runs,
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


@leaderboard.command()
def check(folders: list[Path]) -> None:
    """Compute submissions anew from the frozen panel; exit code 2 where a number differs.

    Arguments:
        folders (FOLDER): Folders of submissions.
    """
    from gmb_hf.hub.leaderboard.check import check as recompute

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


@leaderboard.command("build")
def build_site(
    out: Path,
    submissions: Path | None = None,
    trial: Path | None = None,
    rounds: Path | None = None,
    recompute: bool = True,
    jobs: int | None = None,
    cache: Path | None = None,
) -> None:
    """Compute submissions and a trial anew, and make their static site; a Space as it is.

    Arguments:
        submissions: The folder of submissions.

    Options:
        out (site): Folder of the site, which is made anew.
        trial: What gmb trial wrote, or a folder with its tables/trial.csv alone.
        rounds: Folder of rounds.
        recompute: Compute all anew that has changed; else submissions are shown as not recomputed.
        jobs: Panels of the trial computed at a time; one a core if not given.
        cache: Folder where what was recomputed is kept; by default that of the user.
    """
    from gmb_hf.hub.leaderboard.board import build_board

    made = build_board(
        submissions,
        out,
        trial=trial,
        rounds=rounds,
        recompute=recompute,
        cache=cache,
        jobs=jobs,
        counting=screen.counting,
    )
    screen.say(made.sentence)
    screen.notes(f"left out: {fault}" for fault in made.left_out)
    screen.written(
        [made.index, out / "README.md"], following=screen.command("leaderboard", "serve", out)
    )


@leaderboard.command()
def serve(site: Path = Path("site"), port: int = 8000) -> None:
    """Show a site in a browser, from this machine alone, until Ctrl-C.

    Arguments:
        site: The folder that gmb leaderboard build made.

    Options:
        port: On 127.0.0.1; 0 takes a free one.
    """
    from gmb_hf.hub.leaderboard.serve import address, server

    with server(site, port) as running:
        screen.answered(address=address(running))
        screen.say(f"{address(running)} shows {site} until Ctrl-C.")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            running.serve_forever()
