"""`gmb evaluate`, `gmb report`, `gmb results`: verdicts on runs, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from gmb_hf.base.errors import CheckFailed, InputError, choose, first_of, positive_int
from gmb_hf.base.escape import number, steps
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import options
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import App

if TYPE_CHECKING:
    from gmb_hf.benchmark.compat import CompatSettings
    from gmb_hf.benchmark.evaluate import Evaluation
    from gmb_hf.benchmark.judgement import Judgement
    from gmb_hf.benchmark.results import Results
    from gmb_hf.benchmark.verdict import IndicatorRecord
    from gmb_hf.design.design import Design
    from gmb_hf.report.compare import IndicatorPair, ResultsComparison
    from gmb_hf.runs.runlog import RunLog

app = App()

# Which options go with what: a lock fixes the design, and the reference has settings of its own.

_ALWAYS = {"runs", "out", "step_column", "run_column", "require_supported"}
_ALWAYS |= {"figures", "force"}
_OF_BOTH = {"score", "fpr_targets", "sign", "sees_test_labels", "protocol"}
_OF_A_JUMP = {"jump_checkpoints", "hold_checkpoints", "fall_back", "smoothing"}
_ONLY_COMPAT = {*_OF_A_JUMP, "thresholds", "last_rows"}
_SAID = ("score", "pretrained", "sign", "sees_test_labels")
_LOG = "LOG"  # of a run that is still to come


def evaluate(
    context: typer.Context,
    runs: list[str],
    lock: Path | None = None,
    out: Path = Path("results"),
    score: list[str] | None = None,
    pretrained: list[str] | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
    explore_runs: list[str] | None = None,
    protocol: str = "strict",
    step_column: str = "step",
    run_column: str = "run",
    require_supported: bool = False,
    transfer: bool = False,
    figures: bool = True,
    force: bool = False,
    thresholds: str | None = None,
    last_rows: int | None = None,
    jump_checkpoints: int = 2,
    hold_checkpoints: int = 5,
    fall_back: float = 0.03,
    smoothing: int = 1,
) -> None:
    """Judge scores on held-out runs: may any of them raise an alarm?

    Options:
        lock: Judge held-out runs by this lock.
        out (folder): Folder for the results.
        score (column): A column, or an indicator, to judge; may be given several times.
        sign: +1: high scores mean risk; -1: low ones do.

    More options:
        pretrained (name): A pretrained score (gmb score list), or its file.
        sees_test_labels, --sees-test-labels/--no-test-labels: Whether held-out labels went into
            these columns.
        explore_runs: Find the thresholds on these runs.
        protocol: strict, v0.4, or compat (the reference's own numbers).
        require_supported: Exit 1 unless a score may raise an alarm.
        transfer: With --lock: these runs are of another system, where budgets must be shown.
        force: Replace other results in --out.

    Protocol compat:
        thresholds: Thresholds from outside, one a target.
        last_rows: Keep the end of each log.
        jump_checkpoints: The jump, and the mean before it.
        hold_checkpoints: How long the level must hold.
        fall_back: How far it may fall back.
        smoothing: Checkpoints to average a score over.
    """
    from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs
    from gmb_hf.benchmark.prepare import controls_of
    from gmb_hf.design.lock import Lock
    from gmb_hf.design.looks import LooksFile, looks_path
    from gmb_hf.hub.sources import named, naming_panels, panel_of, part_of, read_runs
    from gmb_hf.report.answer import answer
    from gmb_hf.report.report import publish, refuse_others

    choose("value", protocol, ("strict", "v0.4", "compat"), where="--protocol")
    if protocol == "compat":
        _reproduce(context)
        return
    read = partial(read_runs, step_column=step_column, run_column=run_column)
    on_line = options.typed(context)
    too_few = False
    if lock is not None:
        allowed = {*_ALWAYS, "lock", "transfer"}
        wrong = [flag for name, flag in on_line.items() if name not in allowed]
        if wrong:
            raise InputError(f"--lock fixes the design; leave out {', '.join(wrong)}")
        log, locked = read(runs), Lock.read(lock)
        if not force:  # before the held-out runs are looked at
            refuse_others(out, lock_hash=locked.hash)
        part, aside = part_of(log, locked.design, "held-out")
        if aside:
            show.say(f"{aside} runs were set aside: they are not declared as held out.")
        with show.counting("judging", len(locked.x_lock.candidates)) as done:
            with naming_panels(log):
                evaluation = evaluate_lock(locked, part, transfer=transfer, on_done=done)
            if LooksFile.beside(locked).publication(locked) is not None:
                from gmb_hf.hub.locks import with_publication

                evaluation = with_publication(evaluation)
        following = _after_lock(context, evaluation, lock)
    else:
        from gmb_hf.benchmark.own_runs import own_design, own_score

        if transfer:
            raise InputError("--transfer judges runs of another system by a lock: give --lock FILE")
        panel = named(runs)  # which comes with a design and a split
        options.require_own(context, "or judge by --lock FILE", of_panel=panel is not None)
        strange = ", ".join(flag for name, flag in on_line.items() if name in _ONLY_COMPAT)
        if strange:
            raise InputError(f"only --protocol compat has {strange}; add it, or leave that out")
        fields = {"protocol": protocol, **options.design_fields(context)}
        options.check_event(context, fields.get("event_type"))
        options.check_sign(sign)
        if panel is None:
            log, earlier = read(runs), read(explore_runs) if explore_runs else None
        else:
            if explore_runs:
                raise InputError(f"--explore-runs: {runs[0]} has its own; leave the option out")
            log, earlier = panel.read("explore"), None
            if panel.judged:
                log, earlier = panel.read("heldout"), log
        known: Any = {"sign": sign, "sees_test_labels": sees_test_labels}
        scores = options.scores_of(context)
        options.refuse_candidates(fields, scores)
        with options.said_in_options(every=True):
            if panel is None:
                fixed = own_design(log, scores, **known, **fields)
            else:
                fields["candidates"] = [own_score(name, log, **known) for name in scores]
                fixed = panel.design().replace(**fields)
            count = len({*controls_of(log), *(candidate.name for candidate in fixed.candidates)})
            with naming_panels(log), show.counting("judging", count) as done:
                evaluation = evaluate_runs(fixed, log, explore=earlier, on_done=done)
        if not force:
            _refuse_others(out, evaluation.results)
        following = _after_exploring(context, evaluation, fixed, log, earlier)
        too_few = following.startswith("gmb plan ")
    paths = publish(evaluation, out, next_command=following, figures=figures)
    if lock is not None:
        paths.append(looks_path(lock))
    show.verdicts(evaluation.results, out / "report.md")
    show.checklist(evaluation.results, out)
    notes = evaluation.results.summary.x_notes
    if lock is not None:
        show.notes(notes)
        published = evaluation.results.x_published
        if published is None:
            show.tell("not_published")
        else:
            show.say(published.sentence)
        if panel_of(log) is not None and (own := _scores(evaluation.results)):
            words = ("submit", own[0], "--runs", *runs)
            submit = show.command(*words, lock=lock, results=out)
            show.hint("of_a_panel", submit=submit)
        if following.startswith("gmb monitor "):
            show.tell(
                "to_follow", replayed=f"--follow {_LOG} " not in following, lock=lock, out=out
            )
    else:
        show.notes(map(options.in_options, notes))
        if too_few:
            events = evaluation.events.n_events
            show.tell("too_few_to_lock", runs=len(log.runs), events=events, design=fixed)
        for item in evaluation.results.indicators:
            _hint_of_sign(item, evaluation.judgements[item.name])
    show.written(paths, following=following)
    if require_supported and not answer(evaluation.results).may_alarm:
        without = "" if lock else "; without --lock none ever may"
        raise CheckFailed(f"no score may raise an alarm{without}")


def _after_exploring(
    context: typer.Context,
    evaluation: Evaluation,
    design: Design,
    log: RunLog,
    earlier: RunLog | None,
) -> str:
    """The command that follows an evaluation without a lock, with all that was typed.

    A lock on explore runs or on a share of these; where too few can be held out, a plan; where the
    metric falls, the same evaluation of its drops. `earlier` are explore runs beside the log.
    """
    from gmb_hf.benchmark.own_runs import SHARES, share_to_explore
    from gmb_hf.cli.design import lock_next
    from gmb_hf.hub.sources import named

    given = context.params
    runs, panel = given["runs"], named(given["runs"])
    if _other_way(evaluation):
        words = options.again(context, *_SAID, "explore_runs", "step_column", "run_column")
        words += ["--falling", "--force"]  # results without an event are worth nothing
        return show.command("evaluate", "--runs", *runs, *words, out=given["out"])
    if earlier is not None:
        explored = (given["explore_runs"], earlier) if panel is None else (runs, log)
        return lock_next(context, *explored, design, None)
    share: float | None = SHARES[0]
    if design.n_eval is None and evaluation.events.n_events:
        share = share_to_explore(design, log, evaluation.events)
    if share is not None:
        return lock_next(context, runs, log, design, share)
    words = options.again(context, "score", "sign", "step_column", "run_column")
    return show.command("plan", "--pilot", *runs, *words)


def _after_lock(context: typer.Context, evaluation: Evaluation, lock: Path) -> str:
    """The command that follows a verdict: watch a run by it, or see what stands against it.

    The run is a held-out one whose log can be followed, best one that is detected.
    """
    from gmb_hf.report.answer import answer
    from gmb_hf.runs.readers import files_to_follow

    found, out = answer(evaluation.results), context.params["out"]
    if not found.may_alarm:
        return show.command("results", "show", out, *_scores(evaluation.results)[:1])
    acting = next(item.name for item in found.ranked if item.x_alarm_eligible)
    judged = evaluation.judgements[acting]
    best = judged.first_alarms(judged.design.primary_run_budget)
    files = files_to_follow(context.params["runs"])
    outcomes = zip(evaluation.log.runs, best.outcomes, strict=True)
    replayed = sorted((what != "timely", run) for run, what in outcomes if run in files)
    log = files[replayed[0][1]] if replayed else _LOG
    words = options.again(context, "step_column", of_design=False)
    return show.command("monitor", "--follow", log, *words, lock=lock, results=out / "results.yaml")


def _scores(results: Results) -> list[str]:
    """The scores of results that are no controls, the best first."""
    from gmb_hf.report.answer import answer

    return [item.name for item in answer(results).ranked if item.family != "control"]


def _hint_of_sign(item: IndicatorRecord, judgement: Judgement) -> None:
    """Of a score that ranks the wrong way round, what its reverse would detect on these runs."""
    from gmb_hf.benchmark.evaluate import reversed_detection

    if item.family == "control" or item.layer_A.auc is None or item.layer_A.auc >= 0.5:
        return
    detected, sign = reversed_detection(judgement), -(item.x_sign or 1)
    if detected is not None and detected > 0:
        show.tell("reversed", name=item.name, auc=item.layer_A.auc, sign=sign, detected=detected)


def _other_way(evaluation: Evaluation) -> bool:
    """Whether no run has an event, but some would if the metric were to fall."""
    from gmb_hf.benchmark.events import events_the_other_way

    nothing = not evaluation.events.n_events
    return nothing and events_the_other_way(evaluation.log, evaluation.design) > 0


def _refuse_others(out: Path, results: Results) -> None:
    """Results are replaced only by those of the same runs by the same design."""
    from gmb_hf.report.report import refuse_others

    names = ("lock_hash", "prereg_hash", "explore_fingerprint", "evaluation_fingerprint")
    refuse_others(out, **{name: getattr(results.x_provenance, name) for name in names})


# Protocol `compat`: the reference's computation, on these runs.


def _reproduce(context: typer.Context) -> None:
    """Evaluate, and show what each threshold of each score costs and covers."""
    from gmb_hf.base.documents import load_yaml
    from gmb_hf.benchmark.compat import reproduce
    from gmb_hf.benchmark.own_runs import own_score
    from gmb_hf.hub.sources import read_runs
    from gmb_hf.report.answer import answer
    from gmb_hf.report.report import publish
    from gmb_hf.report.tables import operating_points

    known = load_yaml(Path(__file__).with_name("compat.yaml"))
    for name, flag in options.typed(context).items():
        if name not in {*_ALWAYS, *_OF_BOTH, *known["settings"], *_ONLY_COMPAT}:
            why = known["why_not"].get(name, "the reference knows nothing of the kind")
            raise InputError(f"--protocol compat does not go with {flag}: {why}")
    given = context.params
    out, last_rows = given["out"], given["last_rows"]
    if not given["score"]:
        raise InputError("--score missing: say which column to judge, e.g. --score COLUMN")
    options.check_sign(given["sign"])
    if last_rows is not None:
        positive_int("--last-rows", last_rows)
    settings = _compat_settings(context, known["settings"])
    reading: Any = {name: given[name] for name in ("step_column", "run_column", "last_rows")}
    log = read_runs(given["runs"], on_duplicate="sort", **reading)
    notes = () if last_rows is None else (f"Only the last {last_rows} rows of each log were read.",)
    about: Any = {name: given[name] for name in ("sign", "sees_test_labels")}
    scores = [own_score(name, log, **about) for name in given["score"]]
    found = reproduce(log, scores, settings, notes=notes)
    results = found.results
    if not given["force"]:
        _refuse_others(out, results)
    following = show.command("results", "show", out)
    paths = publish(found, out, next_command=following, figures=given["figures"])
    columns = [
        Column("target", "{:.4g}".format, take="worth.fpr"),
        Column("threshold", "{:.6g}".format, take="worth.x_threshold"),
        Column("FPR", partial(number, digits=4), take="cost.achieved"),
        Column(
            "covered", align="r", take=lambda at: f"{at.worth.x_n_covered} of {at.worth.x_n_events}"
        ),
        Column("cover", partial(number, digits=2), take="worth.coverage"),
        Column("abstain", partial(number, digits=2), take="abstain_rate"),
        Column("lead", steps, take="lead_time_mean"),
    ]
    rows: list[Row | Line] = []
    for item in results.indicators:
        ranking = f"AUC {number(item.layer_A.auc)}, AP {number(item.layer_A.ap)}"
        rows.append(Line(f"{show.signed(item.name, item.x_sign)}: {item.label}, {ranking}"))
        rows += Table.of(operating_points(item), columns).rows
    show.console().print()
    show.finding(answer(results))
    if len(results.indicators) > 1:
        show.say("compat repeats the published computation and never supports an alarm.")
    show.table(Table(columns, rows), above=True)
    show.tell("legend_of_compat", style="dim", report=out / "report.md")
    show.checklist(results, out)
    show.notes(results.summary.x_notes)
    show.written(paths, following=following)
    if given["require_supported"]:
        raise CheckFailed("no score may raise an alarm; with --protocol compat none ever may")


def _compat_settings(context: typer.Context, names: Mapping[str, str]) -> CompatSettings:
    from gmb_hf.benchmark.compat import CompatSettings

    on_line = options.typed(context)
    given = {**context.params, **options.design_fields(context)}
    chosen = {setting: given[name] for name, setting in names.items() if name in on_line}
    if given["thresholds"] is not None:
        example = "0.1776,0.0984443"
        chosen["thresholds"] = options.numbers("--thresholds", given["thresholds"], example=example)
    spelled = {setting: on_line[name] for name, setting in names.items() if name in on_line}
    spelled = {"fpr_targets": "--fpr", "thresholds": "--thresholds", **spelled}
    return CompatSettings.asked(**chosen, spelled=spelled)


# Results files: made again as a page, checked, and compared.


def report(results: Path, out: Path | None = None) -> None:
    """Make report.html again from results alone: one file, which needs no logs and no network.

    Arguments:
        results (RESULTS): A results file, or the folder that holds results.yaml.

    Options:
        out: Where to; report.html beside the results if not given.
    """
    from gmb_hf.report.page import remake_page

    made = remake_page(results, out)
    file = results / "results.yaml" if results.is_dir() else results
    show.written([made], following=show.command("results", "validate", file))


@app.command()
def validate(file: Path) -> None:
    """Say whether a file is results of schema v0.4, naming every violation by its path.

    Exit code 0: it is; 1: a table that its preregistration requires is missing; 2: it violates the
    schema, or cannot be read. Keys that begin with x_ are extensions, which any writer may add.

    Arguments:
        file: A results file of anybody's, YAML or JSON.
    """
    from gmb_hf.benchmark.validation import check_results, missing_tables

    found = check_results(file)
    show.answered(valid=not found.faults, faults=found.faults, set_aside=found.set_aside)
    for path in found.set_aside:
        show.notes([f"{path} is an extension of its writer, not ours of that name; set aside"])
    for violation in found.faults:
        show.say(f"- {violation}")
    if found.faults or found.content is None:
        first, count = found.faults[0], len(found.faults) - 1
        more = f" ({count} more, listed above)" if count else ""
        raise InputError(f"{file}: violates the results schema v0.4: {first}{more}")
    if missing := missing_tables(found.content, file.parent):
        raise CheckFailed(
            f"{file}: lacks the required tables {first_of(missing)}; put them beside it, or write "
            "them anew with gmb evaluate"
        )
    summary = found.content.summary
    show.tell("valid_results", file=file, n=len(found.content.indicators), summary=summary)
    show.written([], following=show.command("results", "compare", file, "OTHER.yaml"))


@app.command("show")
def show_results(results: Path, score: str | None = None) -> None:
    """Show the verdicts of a results file; of one score every gate, in both units of counting.

    Arguments:
        results (RESULTS): A results file, or the folder that holds results.yaml.
        score: Explain the label of this score alone.
    """
    from gmb_hf.benchmark.gates import BY_THE_LETTER
    from gmb_hf.benchmark.results import Results
    from gmb_hf.report.tables import gates_table

    found = Results.read(results)
    file = results / "results.yaml" if results.is_dir() else results
    if score is None:
        show.verdicts(found, file)
        best = next(iter(_scores(found)), None)
        explained = best and show.command("results", "show", file, best)
        show.written([], following=explained or show.command("report", file))
        return
    item = found.indicator(score)
    show.answered(name=item.name, label=item.label, sentence=item.x_sentence, gates=item.x_gates)
    letter = f", {BY_THE_LETTER}" if item.by_the_letter else ""
    show.say(f"{item.name}: {item.label}{letter}", style="bold")
    show.say(item.x_sentence or "The file holds no sentence about it.")
    if item.x_gates:
        show.table(gates_table(item), above=True)
        if "few_events" in item.x_reasons:
            show.say("Whatever the gates say, there are too few events to conclude (see above).")
    else:
        show.notes([f"{file} holds no gates (x_gates): evaluate the runs again to see them"])
    show.written([], following=show.command("report", file))


@app.command()
def compare(
    a: Path, b: Path, out: Path | None = None, allow_fingerprint_mismatch: bool = False
) -> None:
    """Put two evaluations side by side, indicator by indicator; what changed is marked.

    Arguments:
        a (A): A results file.
        b (B): Another one.

    Options:
        allow_fingerprint_mismatch: Show files of different runs or designs as well; they are not
            comparable.
        out: Write the comparison, as .md, .csv or .json.
    """
    from gmb_hf.benchmark.results import Results
    from gmb_hf.report import compare as comparing

    if out is not None:
        comparing.check_ending(out)
    found = comparing.compare(Results.read(a), Results.read(b))
    if found.differences and not allow_fingerprint_mismatch:
        raise InputError(
            f"{a} and {b} differ in their {', '.join(found.differences)}; numbers do not compare "
            "across that, pass --allow-fingerprint-mismatch to see them all the same"
        )
    show.answered(comparable=found.comparable, comparison=found)
    show.say_whole("A", str(a))
    show.say_whole("B", str(b))
    show.table(_table(found), above=True)
    show.tell("legend_of_comparison", style="dim", budget=found.budget, target=found.target)
    show.say(comparing.count_changes(found))
    show.say(comparing.verdict(found), style="" if found.comparable else "bold")
    paths = [] if out is None else [comparing.write_comparison(found, str(a), str(b), out)]
    show.written(paths, following=show.command("results", "validate", b))


def _table(found: ResultsComparison) -> Table:
    """What differs, then what is the same."""
    columns = (
        Column("score", shrinks_to=10),
        Column(""),
        Column("label"),
        *(Column(one.short, align="r", from_width=one.from_width) for one in found.columns),
    )
    rows: list[Row | Line] = []
    for heading, changed in (("Different", True), ("The same", False)):
        items = [one for one in found.indicators if one.changed == changed]
        rows += section([row for item in items for row in _rows(item, found)], heading)
    return Table(columns, rows)


def _rows(item: IndicatorPair, found: ResultsComparison) -> list[Row]:
    """A line for each file; one line where they agree or only one has it."""
    from gmb_hf.report.compare import shown

    def cells(side: str) -> list[Text]:
        row = []
        for column in (None, *found.columns):
            pair = item.values[column.name if column else "label"]
            marked = side == "B" and item.only_in is None and pair.changed
            text = shown(column, getattr(pair, side.lower())) + ("*" if marked else " ")
            row.append(Text(text, style="bold" if marked else ""))
        return row

    name = item.name
    if item.only_in:
        return [[name, f"only in {item.only_in}", *cells(item.only_in)]]
    if not item.changed:
        return [[name, "A, B", *cells("A")]]
    return [[name, "A", *cells("A")], ["", "B", *cells("B")]]
