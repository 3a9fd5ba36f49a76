"""Everything that a submission says, computed anew from the frozen panel.

The design is the panel's, the thresholds are found on its explore runs once more, its held-out runs
are judged by the lock, and every number is compared. What nobody can compute is named.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base.checksums import ABSENT, leaves
from gmb_hf.base.documents import Count, Many, Number, Section, load_yaml
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import read_bytes, read_json, write_text
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.base.schemas import Schema, dated
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.causality import Tried, alone, refuse_peeking
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.first_alarm import FirstAlarmRecord
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.older import SCHEMA as RESULTS_SCHEMA
from gmb_hf.benchmark.older import codes_1, first_alarm_1, tolerant, worse_of
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.records import INCONCLUSIVE, SUPPORTED, Label
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.design.design import SEEDS, Design
from gmb_hf.design.lock import SCHEMA as LOCK_SCHEMA
from gmb_hf.design.lock import Lock
from gmb_hf.hub.leaderboard import submission as submissions
from gmb_hf.hub.leaderboard.kept import Cache, key_of, whole_json
from gmb_hf.hub.leaderboard.submission import (
    LOCK,
    RESULTS,
    RUNS,
    SCORES,
    ScoreRecord,
    Submission,
    SubmissionRecord,
    panel_of_lock,
    parameters_of,
)
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.sources import part_of
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Indicator, Observables
from gmb_hf.indicators.causal import Values
from gmb_hf.report.answer import primary_target
from gmb_hf.report.page import CLASSES, class_of
from gmb_hf.runs.joining import join_scores
from gmb_hf.runs.metadata import EXTERNAL, PANEL
from gmb_hf.runs.runlog import RunLog

CHECK = "check.json"
_MOST = 5  # numbers of a file that are named
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9  # what another machine's rounding may change
# What is passed over: what is of the day or the place, what is worded or concluded otherwise today.
_PASSED = load_yaml(Path(__file__).with_name("passed_over.yaml"))


def _upgrade_1(content: dict[str, Any]) -> dict[str, Any]:
    """A check of schema 1, which named a label of each unit; that by runs decided."""
    said, scores = content.get("submission"), content.get("scores")
    found = dated(content, 2)
    if isinstance(said, dict):
        found["submission"] = submissions.SCHEMA.upgraded(said, 1)
    if isinstance(scores, list):
        found["scores"] = [tolerant(_score_1, one) for one in scores]
    return found


def _score_1(score: dict[str, Any]) -> dict[str, Any]:
    first, windows = score["first_alarm"], score["label_by_windows"]
    # Nearly always a budget straddled that the rule of today finds met.
    undecided = windows == INCONCLUSIVE and first["label"] == SUPPORTED
    label = first["label"] if undecided else worse_of(windows, first["label"])
    return {
        **{key: value for key, value in score.items() if key != "label_by_windows"},
        "label": label,
        "alarm_eligible": label == SUPPORTED and not first["reasons"],
        "reasons": codes_1(first["reasons"], "runs"),
        "sentence": first["sentence"],
        "first_alarm": first_alarm_1(first),
    }


SCHEMA = Schema("check of a submission", (_upgrade_1,))


class CheckedScore(Section):
    """One score with its verdict: of a submission as the check found it, or of a trial."""

    name: str
    kind: str
    sign: Literal[1, -1] = 1
    label: Label
    alarm_eligible: bool
    reasons: Many[str] = ()
    sentence: str = ""
    first_alarm: FirstAlarmRecord
    # By windows, at the primary target.
    coverage: Number = None
    chance_by_windows: Number = None
    auc: Number = None

    @classmethod
    def of(
        cls, item: IndicatorRecord, first: FirstAlarmRecord, *, kind: str, target: float
    ) -> CheckedScore:
        """What is shown of a score, with its first alarms, its class and the primary target."""
        point = item.point(target)
        return cls(
            name=item.name,
            kind=kind if kind in CLASSES else "undeclared",
            sign=item.x_sign or 1,
            label=item.label,
            alarm_eligible=bool(item.x_alarm_eligible),
            reasons=item.x_reasons,
            sentence=item.x_sentence,
            first_alarm=first,
            coverage=follow(point, "coverage"),
            chance_by_windows=follow(point, "chance"),
            auc=item.layer_A.auc,
        )


class CheckRecord(Section):
    """What a check found: `check.json`."""

    x_schema: int = SCHEMA.current
    submission: SubmissionRecord
    date: str
    package_version: str
    files: dict[str, str] = Field(description="name -> SHA-256 of its bytes")
    numbers: Count = Field(description="how many were computed anew and found equal")
    not_checked: Many[str]
    budget: float
    locked: str = Field(description="the day of the lock")
    n_scores: Count = Field(description="candidates of the lock, over which p-values are adjusted")
    scores: Many[CheckedScore]

    @classmethod
    def of(cls, folder: Path) -> tuple[Submission, CheckRecord] | None:
        """What the last check of a folder found, if its files are those that it saw, else None.

        The card is not read once more: its words are those of the check.

        Raises:
            InputError: check.json cannot be read, or a file is missing.
        """
        path = folder / CHECK
        if not path.is_file():
            return None
        said = SCHEMA.opened(read_json(path), where=str(path))
        record = cls.parse(said, where=str(path))
        submission = Submission(folder, record.submission)
        if folder.name != record.submission.name or record.files != hashes(submission):
            return None
        return submission, record


def hashes(submission: Submission) -> dict[str, str]:
    """SHA-256 of every file that the check reads."""
    return {
        name: hashlib.sha256(read_bytes(submission.folder / name)).hexdigest()
        for name in submission.files
    }


@dataclass(frozen=True)
class CheckedSubmission:
    """What came out.

    Attributes:
        submission: what was checked.
        faults: what differs, a line each; empty where everything is as it says.
        not_checked: what nobody could compute, a line each.
        record: what the leaderboard shows; None where something differs.
        as_submitted: the scores whose numbers nobody here computed from the logs, and combinations
            of them: whether they are causal is not known.
    """

    submission: Submission
    faults: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    record: CheckRecord | None = None
    as_submitted: frozenset[str] = frozenset()


def check(folder: str | Path, *, keep: bool = True) -> CheckedSubmission:
    """Compute a submission anew; `keep` writes what was found to its check.json.

    Raises:
        InputError: it is no submission, its panel is not here, or a file of it cannot be read or
            was edited.
    """
    submission = Submission.read(folder)
    record = submission.record
    panel = FrozenPanel.find(record.panel, record.fingerprint)
    panel.check()
    lock = Lock.read(submission.folder / LOCK)
    results = Results.read(submission.folder / RESULTS)
    results.verify(str(submission.folder / RESULTS))
    faults = list(_of_others(submission, panel, lock, results))
    if faults:
        return CheckedSubmission(submission, tuple(faults))
    try:
        log = _log(submission, panel)
        stand_ins = [_stand_in(name, one, lock) for name, one in record.scores.items()]
        faults += _installed(submission, lock, log)
        if faults:
            return CheckedSubmission(submission, tuple(faults))
        with catalogue.standing_in(one for one in stand_ins if one is not None):
            found = _recomputed(submission, panel, lock, results, log)
    except InputError as error:
        return CheckedSubmission(submission, (f"{submission.folder}: {error}",))
    faults = found.faults
    missing = tuple(_not_checked(submission))
    if faults or found.results is None:
        return CheckedSubmission(submission, tuple(faults), missing)
    checked = CheckRecord(
        submission=record,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        package_version=__version__,
        files=hashes(submission),
        numbers=found.numbers,
        not_checked=missing,
        budget=_budget(found.results),
        locked=lock.x_lock.created.partition("T")[0],
        n_scores=len(lock.design.candidates),
        scores=tuple(_scores(submission, found.results)),
    )
    forged = _held_before(submission, checked)
    if forged:
        return CheckedSubmission(submission, tuple(forged), missing)
    if keep:
        write_text(submission.folder / CHECK, whole_json(checked))
    return CheckedSubmission(submission, (), missing, checked, _as_submitted(submission, lock))


class KeptCheck(Section):
    """What a check found, as it is kept for the next site."""

    faults: Many[str]
    not_checked: Many[str]
    record: CheckRecord | None
    as_submitted: Many[str]


def check_or_kept(folder: str | Path, cache: Cache) -> CheckedSubmission:
    """As `check`, without writing into the folder; what has not changed is not computed again.

    Scores of a package are always computed, since its code may have changed.

    Raises:
        InputError: as `check`.
    """
    submission = Submission.read(folder)
    record = submission.record
    panel = FrozenPanel.find(record.panel)
    panel.check()
    if any(one.package for one in record.scores.values()):
        return check(folder, keep=False)
    earlier = submission.folder / CHECK
    files = {**hashes(submission), CHECK: read_bytes(earlier).hex() if earlier.is_file() else ""}
    key = key_of(files=files, panel=panel.record.files)
    kept = cache.get(key, KeptCheck)
    if kept is None:
        found = check(folder, keep=False)
        kept = KeptCheck(
            faults=found.faults,
            not_checked=found.not_checked,
            record=found.record,
            as_submitted=tuple(sorted(found.as_submitted)),
        )
        cache.put(key, kept)
    said = kept.faults, kept.not_checked, kept.record, frozenset(kept.as_submitted)
    return CheckedSubmission(submission, *said)


def _as_submitted(submission: Submission, lock: Lock) -> frozenset[str]:
    given = {*submission.record.scores} - {*_computable(submission)}
    combined = {
        one.name
        for one in lock.design.candidates
        if one.x_ensemble is not None and given & {part.name for part in one.x_ensemble.members}
    }
    return frozenset(given | combined)


def _held_before(submission: Submission, checked: CheckRecord) -> list[str]:
    """What an earlier check.json of these very files says otherwise."""
    try:
        found = CheckRecord.of(submission.folder)
    except InputError:  # of another version, or nobody's: it is written anew
        found = None
    if found is None:
        return []
    before = found[1]
    theirs, ours = (
        {name: value for name, value in one.plain().items() if name not in _PASSED["of_the_day"]}
        for one in (before, checked)
    )
    path = submission.folder / CHECK
    schema = SCHEMA.version(read_json(path), where=str(path))
    passed_over = fields_passed_over(schema, SCHEMA, before.package_version)
    return compared(path, theirs, ours, passed_over)[0]


def fields_passed_over(schema: int, of: Schema, writer: str | None) -> frozenset[str]:
    """The fields of a file that need not be what they are today.

    Those of an earlier schema, or of another version of the package, may lack what was added since.
    """
    if schema < of.current:
        return frozenset((*_PASSED["words"], *_PASSED["verdicts"], _ADDED))
    return frozenset() if writer == __version__ else frozenset((*_PASSED["words"], _ADDED))


def _of_others(
    submission: Submission, panel: FrozenPanel, lock: Lock, results: Results
) -> Iterator[str]:
    """That the files belong together, and to the panel that the card names."""
    record, where = submission.record, submission.folder
    if record.fingerprint != panel.entry.fingerprint:
        yield (
            f"{where}: the card is of panel {panel.name!r} with the runs {record.fingerprint}, the "
            f"panel here has {panel.entry.fingerprint}"
        )
    home = panel_of_lock(lock)
    if home != (None if record.retrained else panel.name):
        made = "own runs" if home is None else f"panel {home!r}"
        said = "own runs" if record.retrained else f"panel {panel.name!r}"
        yield f"{where / LOCK}: was made on {made}, the card says {said}"
    elif not record.retrained:
        theirs = next(one for one in lock.x_lock.x_sources if one.repo == f"{PANEL}{home}")
        if theirs.fingerprint not in panel.fingerprints:
            yield (
                f"{where / LOCK}: was made on runs {theirs.fingerprint} of that panel, it has "
                f"{panel.entry.fingerprint}"
            )
    if record.lock_hash != lock.hash:
        yield (
            f"{where / LOCK}: has the hash {lock.hash[:SHOWN]}, the card says "
            f"{record.lock_hash[:SHOWN]}"
        )
    judged_by = results.x_provenance.lock_hash if results.x_provenance else None
    if judged_by != lock.hash:
        by = "without a lock" if judged_by is None else f"by the lock {judged_by[:SHOWN]}"
        yield f"{where / RESULTS}: was judged {by}, lock.yaml is {lock.hash[:SHOWN]}"


def _log(submission: Submission, panel: FrozenPanel) -> RunLog:
    """The panel, or own runs, with the submitted scores as columns, a value in every row."""
    place = submission.folder
    log = RunLog.read(place / RUNS) if submission.record.retrained else panel.read()
    if not submission.record.scores:
        return log
    joined = join_scores(log, place / SCORES, submission.columns)
    lacking = log.table.num_rows - joined.table.num_rows
    if lacking:
        raise InputError(
            f"{SCORES} has no score for {lacking:,} of {log.table.num_rows:,} checkpoints; a score "
            "is there at every one, of both parts, or it chose what it is judged on"
        )
    return joined


def _stand_in(name: str, score: ScoreRecord, lock: Lock) -> Indicator | None:
    """An indicator that reads the submitted numbers of one that a package registers."""
    if not score.package:
        return None
    frozen = lock.x_lock.candidates.get(name)
    members = [
        member
        for candidate in lock.design.candidates
        if candidate.x_ensemble is not None
        for member in candidate.x_ensemble.members
        if member.name == name
    ]
    family = frozen.family if frozen else members[0].family if members else None
    parameter = score.window_parameter

    def submitted(seen: Observables, **settings: Any) -> Values:
        window = None if parameter is None else int(settings[parameter])
        return seen[score.column(name, window)]

    return Indicator(
        name=name,
        family=family or EXTERNAL,
        summary="scores of a submission",
        needs=frozen.needs if frozen else (),
        function=submitted,
        source=SCORES,
        sees_test_labels=frozen.sees_test_labels if frozen else score.kind == "label-using",
        parameters=parameters_of(lock, name),
        window_parameter=parameter,
        kind=score.kind,
        rule=score.rule,
        package=score.package,
    )


def _installed(submission: Submission, lock: Lock, log: RunLog) -> Iterator[str]:
    """Where the package of a score is installed, that it computes the numbers, and causally.

    Raises:
        InputError: it is not causal.
    """
    tried: dict[str, Tried] = {}
    for name in _computable(submission):
        score, indicator = submission.record.scores[name], catalogue.get(name)
        if score.kind != indicator.kind:
            yield (
                f"{submission.folder}: the card says that {name} is {score.kind}; by the columns "
                f"that it reads ({', '.join(indicator.needs)}) it is {indicator.kind}"
            )
        for window in score.windows or (None,):
            parameters = dict(parameters_of(lock, name))
            if window is not None and score.window_parameter is not None:
                parameters[score.window_parameter] = window
            tried[score.column(name, window)] = Tried(indicator, parameters, 1)
    by_itself = alone(list(tried.values()), log)
    for column, trial in tried.items():
        found = catalogue.compute(log, trial.indicator, **trial.parameters)
        refuse_peeking(trial, found, by_itself[trial.key])
        own, steps = log.panel(column).values, found.steps
        for row, at in np.argwhere(found.present).tolist():
            mine, theirs = float(found.values[row, at]), float(own[row, at])
            if not same(theirs, mine):
                yield (
                    f"{submission.folder / SCORES}: {column} of run {found.runs[row]} at step "
                    f"{steps[row, at]:,}: submitted {theirs:.9g}, {trial.indicator.package} "
                    f"computes {mine:.9g}"
                )
                return


def _computable(submission: Submission) -> list[str]:
    """The scores of packages that are installed here."""
    scores, known = submission.record.scores, catalogue.names()
    return [
        name
        for name, one in scores.items()
        if one.package and name in known and catalogue.get(name).package == one.package
    ]


@dataclass(frozen=True)
class _Found:
    faults: list[str]
    numbers: int = 0
    results: Results | None = None


def _recomputed(
    submission: Submission, panel: FrozenPanel, lock: Lock, results: Results, log: RunLog
) -> _Found:
    """The lock and the results of these runs by the panel's design, beside the submitted ones."""
    retrained = submission.record.retrained
    design = design_on(panel, lock, retrained=retrained)
    explore, _ = part_of(log, design, "explore")
    again, _ = make_lock(design, prepare(explore, design))
    theirs, ours = (_without(one.plain(), _PASSED["of_the_lock"]) for one in (lock, again))
    for one in (theirs, ours):
        one.pop("meta", None)
    if retrained:  # whose other columns were left behind
        ours["x_lock"]["explore_fingerprint"] = theirs["x_lock"]["explore_fingerprint"]
        ours["x_lock"]["x_sources"] = theirs["x_lock"].get("x_sources", [])
    else:
        ours["x_lock"]["explore_fingerprint"] = _as_locked(explore, submission).fingerprint()
    passed_over = fields_passed_over(lock.file_schema, LOCK_SCHEMA, lock.x_lock.package_version)
    faults, numbers = compared(submission.folder / LOCK, theirs, ours, passed_over)
    if faults:
        return _Found(faults)
    judged, _ = part_of(log, lock.design, "held-out")
    # Its author has looked, and the ledger here is that of this machine.
    evaluated = evaluate_lock(dataclasses.replace(lock, path=None), judged, counted=True).results
    both = (results.as_read(), evaluated.plain())
    theirs, ours = (_without(one, _PASSED["of_the_results"]) for one in both)
    for one in (theirs, ours):
        for name in _PASSED["left_out"]:
            one.pop(name, None)
        one["indicators"] = {item["name"]: item for item in one["indicators"]}
    provenance = ours["x_provenance"]
    if retrained:
        ours["x_sources"] = theirs.get("x_sources", [])
        provenance["evaluation_fingerprint"] = theirs["x_provenance"]["evaluation_fingerprint"]
        ours["meta"]["run_id"] = theirs["meta"]["run_id"]
    else:
        provenance["evaluation_fingerprint"] = _as_locked(judged, submission).fingerprint()
        fingerprint = provenance["evaluation_fingerprint"]
        ours["meta"]["run_id"] = ours["meta"]["run_id"][: -len(fingerprint[:8])] + fingerprint[:8]
    source = results.x_provenance
    writer = source.package_version if source is not None else None
    passed_over = fields_passed_over(results.file_schema, RESULTS_SCHEMA, writer)
    faults, more = compared(submission.folder / RESULTS, theirs, ours, passed_over)
    return _Found(faults, numbers + more, evaluated)


def _as_locked(log: RunLog, submission: Submission) -> RunLog:
    """The log as the lock saw it: without the columns of scores that a package computed."""
    record = submission.record
    extra = [
        column
        for name, score in record.scores.items()
        if score.package
        for column in score.columns(name)
    ]
    return log.with_rows(log.table.drop_columns(extra)) if extra else log


def design_on(panel: FrozenPanel, lock: Lock, *, retrained: bool = False) -> Design:
    """The panel's design with the candidates of a lock; of own runs with their seeds."""
    fields: dict[str, Any] = {
        "candidates": [one.plain() for one in lock.design.candidates],
        **{
            name: getattr(lock.design, name)
            for name, place in Design.places().items()
            if place.startswith("meta.")
        },
    }
    own = panel.design()
    if retrained:
        left_open = [*own.undeclared, *lock.design.undeclared]
        if not lock.design.seeds_explore:  # before a lock had to say so
            left_open.append("seeds_explore")
        fields |= {name: getattr(lock.design, name) for name in SEEDS}
        fields["undeclared"] = tuple(dict.fromkeys(left_open))
    return own.replace(**fields)


def _without(plain: dict[str, Any], left_out: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Plain data without some keys of some sections."""
    return {
        key: {name: value for name, value in part.items() if name not in left_out.get(key, ())}
        if isinstance(part, dict)
        else part
        for key, part in plain.items()
    }


_ADDED = ""  # among what is passed over: whatever the file does not have


def compared(
    where: Path, theirs: Any, ours: Any, passed_over: frozenset[str]
) -> tuple[list[str], int]:
    """The first differences of a file in a line each, and how many values were equal."""
    lines: list[str] = []
    equal = 0
    for path, submitted, found in leaves(theirs, ours, ""):
        name = path.rpartition(".")[2].partition("[")[0]
        if ".x_null_reasons." in path:  # its keys are paths
            name = "x_null_reasons"
        if name in passed_over or (submitted is ABSENT and _ADDED in passed_over):
            continue
        if same(submitted, found):
            equal += 1
            continue
        lines.append(f"{where}: {path}: submitted {_shown(submitted)}, recomputed {_shown(found)}")
    # What a hash is of says more than the hash.
    lines.sort(key=lambda line: "fingerprint" in line or "_hashes" in line)
    more = len(lines) - _MOST
    if more > 0:
        lines = [*lines[:_MOST], f"{where}: and {more:,} more values differ"]
    return lines, equal


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, numbers up to what another machine's rounding may change."""
    numbers = all(type(one) in (int, float) for one in (a, b))
    if not numbers:
        return type(a) is type(b) and bool(a == b)
    return a == b or math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} values ({first_of([one_line(str(one)) for one in value], 3)})"
    if isinstance(value, float):
        return f"{value:.9g}"
    text = one_line(str(value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _not_checked(submission: Submission) -> Iterator[str]:
    """What no computation here can show."""
    record, computed = submission.record, _computable(submission)
    for name, score in record.scores.items():
        said = one_line(name)
        if name in computed:
            continue
        by = ""
        if score.package:
            by = f" by the package {one_line(score.package)}, which is not installed here"
        yield f"{said}: that its numbers are computed from these logs, and causally{by}"
        yield f"{said}: that it is {score.kind}, as its author says"
    if record.retrained:
        yield "that the runs are trainings of the panel's configuration, all of them and unchosen"
    yield "how often held-out runs were looked at before this lock: they lie open"


def _budget(results: Results) -> float:
    budget = results.primary_run_budget
    if budget is None:
        raise InputError("results: there are no first alarms by runs")
    return budget


def _scores(submission: Submission, results: Results) -> Iterator[CheckedScore]:
    target = primary_target(results)
    for item in results.indicators:
        if item.family != "control" and (first := item.x_first_alarm) is not None:
            yield CheckedScore.of(item, first, kind=_kind(submission, item), target=target)


def _kind(submission: Submission, item: IndicatorRecord) -> str:
    """The class of a score: by the catalogue, else as its author says, unless it sees labels."""
    said = submission.record.scores.get(item.name)
    if said is None or item.x_sees_test_labels or said.rule:
        return class_of(item)
    return class_of(item) if item.x_sees_test_labels is None else said.kind
