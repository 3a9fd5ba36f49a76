"""report.html: the whole evaluation as one file, from results.yaml alone.

It needs no network, no other file and no logs: style, script and data stand in it. The words and
the tables are written by `page.html.j2`; `table.js` sorts and filters, and `score.js` draws the
curves of a score when it is opened. Whatever a user named is text: jinja escapes it, and the script
sets it as text content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from markupsafe import Markup

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import one_line, steps
from gmb_hf.base.files import parse_json, write_text
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import follow
from gmb_hf.benchmark.first_alarm import RIVALS, FirstAlarmPointRecord, FirstAlarmRecord
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.records import LABELS
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.sections import EventRecord
from gmb_hf.benchmark.validation import definition_of_done
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.nulls import NULLS, labels_of
from gmb_hf.core.thresholds import in_words
from gmb_hf.design.design import Design
from gmb_hf.report.answer import (
    BASELINE,
    GROUPS,
    KINDS,
    OTHER_REPORTS,
    OUTCOMES,
    TIERS,
    Detection,
    RankedVerdicts,
    answer,
    boundary_sentences,
    calibration_sentence,
    ends,
    events_sentence,
    false_scale,
    judged_by,
    kind_of,
    outcome_counts,
    outcome_shares,
    provenance,
    reason,
    shown_name,
    subtitle,
    tier_of,
)
from gmb_hf.report.sheet import frame, template
from gmb_hf.report.tables import budget_tables, score_columns, score_rows, units

CURVES = "curves.json"
"""Beside results.yaml: the curves of runs that the page shows, see `gmb_hf.report.run_curves`."""

SCRIPTS = ("table.js", "score.js")
"""Sorting and filtering of a table, and the charts of a score: what other pages use, too."""
_UNDECLARED = "undeclared"
_LAST = ("label-using", BASELINE)
CLASSES = {
    **{name: heading for name, heading in KINDS.items() if name not in _LAST},
    _UNDECLARED: GROUPS["undeclared"],
    **{name: KINDS[name] for name in _LAST},
}
_MOST = {"label-free": 8, _UNDECLARED: 8, "label-using": 4, BASELINE: 4}
_ROOM = 14  # bars that stand above the table unfolded, and one of each further class
_Shown = TypeVar("_Shown")


def baseline_name(name: str) -> str:
    """What a chance baseline or a control is called."""
    null = NULLS.get(name)
    return RIVALS.get(name, name.replace("_", " ")) if null is None else null.label


def write_page(results: Results, path: str | Path, **said: Any) -> Path:
    """Write report.html, atomically; `said` goes to `render_page`."""
    return write_text(path, render_page(results, **said))


def remake_page(source: str | Path, out: str | Path | None = None) -> Path:
    """Make report.html again from a results file, or from the folder that holds results.yaml.

    Args:
        source: the file or the folder.
        out: where to; report.html beside the results if not given.

    Raises:
        InputError: there are no results, they are those of another protocol, they cannot be read,
            or `out` does not end in .html.
    """
    file = Path(source)
    inside = [file / name for name in OTHER_REPORTS if not (file / "results.yaml").exists()]
    for other in (file, *inside):
        if other.name in OTHER_REPORTS and other.is_file():
            does = OTHER_REPORTS[other.name]
            raise InputError(f"{other}: is no evaluation; its report is made by: {does}")
    if file.is_dir():
        file = file / "results.yaml"
        if not file.exists():
            raise InputError.at(source, "no_results", "holds no results.yaml; name a results file")
    target = file.parent / "report.html" if out is None else Path(out)
    if target.suffix not in (".html", ".htm"):
        raise InputError(f"--out {out}: the report is a page; end its name in .html")
    results = Results.read(file)
    return write_page(results, target, folder=file.parent, curves=read_curves(results, file.parent))


def read_curves(results: Results, folder: str | Path) -> Mapping[str, Any] | None:
    """The curves that lie beside a results file; None where there are none of these results."""
    path = Path(folder) / CURVES
    try:
        held = parse_json(path.read_text(encoding="utf-8"), where=str(path))
    except (OSError, ValueError):
        return None
    return held if isinstance(held, dict) and held.get("results") == results.x_checksum else None


def render_page(
    results: Results,
    *,
    folder: str | Path | None = None,
    note: str | None = None,
    next_command: str | None = None,
    curves: Mapping[str, Any] | None = None,
) -> str:
    """The page as HTML.

    Args:
        results: what was found.
        folder: where the results file lies, for the definition of done to look into the table.
        note: a remark below the answer.
        next_command: what to type next.
        curves: of the runs, from `run_curves.curves_of`; the page has none where not given.
    """
    found, design = answer(results), results.design  # which is parsed anew at each call
    said = contents(results, found, folder=folder, note=note, next_command=next_command)
    runs, rows = _runs(results.event), list(enumerate(score_rows(found, found.ranked)))
    whys: dict[str, int] = {}
    scores = [_score(item, design, found, runs, whys) for item in found.ranked]
    kinds = [class_of(item) for item in found.ranked]
    data = {
        "runs": [one._asdict() for one in runs],
        "design": timing(design),
        "by": "windows" if found.budget is None else "runs",
        "scores": scores,
        "whys": list(whys),
    }
    writer = follow(results, "x_provenance.package_version")
    return template("page.html.j2").render(
        **frame((*SCRIPTS, "runs.js", "page.js")),
        **said,
        data=Markup(embedded(data)),
        curves=curves and Markup(embedded(curves)),
        subtitle=subtitle(results),
        newer=bool(writer) and _release(writer) > _release(__version__),
        no_design=design is None and judged_by(results) is None,
        unsound=_unsound(found, scores),
        bars=_bars(found),
        units=units(found),
        tiers=_tiers((row.item, (place, row)) for place, row in rows),
        classes={name: kinds.count(name) for name in CLASSES if name in kinds},
        labels=list(dict.fromkeys(item.label for item in found.ranked)),
        every_label=LABELS,
        shown_name=shown_name,
    )


def contents(
    results: Results, found: RankedVerdicts, *, folder: str | Path | None = None, **more: Any
) -> dict[str, Any]:
    """What every form of the report says, by the names in its templates; `more` as it is."""
    done = definition_of_done(results, folder)
    return {
        "results": results,
        "answer": found,
        "reading": reading(results, found),
        "columns": score_columns(found),
        "boundary": boundary_sentences(results),
        "events": events_sentence(results),
        "calibration": calibration_sentence(results),
        "budgets": budget_tables(results),
        "done": done,
        "accepted": all(check.passed for check in done),
        "provenance": list(provenance(results)),
        **more,
    }


def reading(results: Results, found: RankedVerdicts) -> list[tuple[str, str]]:
    """How to read a report: terms and what they mean, as every form of it says them."""
    design = judged_by(results)
    text = template("reading.j2").render(
        answer=found,
        horizon="declared" if design is None else steps(design.horizon),
        protocol=results.x_protocol,
        by_runs=labels_of("runs").values(),
        by_windows=labels_of("windows").values(),
        controls=[RIVALS[item.name] for item in results.indicators if item.name in RIVALS],
    )
    parted = (line.partition(": ") for line in text.splitlines() if line.strip())
    return [(term, meaning) for term, _, meaning in parted]


def embedded(data: Any) -> str:
    """JSON that no HTML parser ends early, every text in it on one line; infinities are null."""
    text = json.dumps(_plain(data), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


# What stands above the table.


def _unsound(found: RankedVerdicts, scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Scores whose first alarms are held, but contradict the counts of their verdict."""
    return [
        shown_name(item)
        for item, score in zip(found.ranked, scores, strict=True)
        if item.x_first_alarm and item.x_first_alarm.alarm_steps and score["alarms"] is None
    ]


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, as far as they are numbers."""
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdecimal())


class _Bar(NamedTuple):
    """What becomes of 100 runs, and in how many of them chance detects an event."""

    place: int
    name: str
    may: bool | None
    shares: Mapping[str, float]
    chance: float | None
    detection: Detection
    said: str
    cut: bool = False  # more false alarms than the axis has room for


class _Tier(NamedTuple):
    """Scores with one outcome, by class; folded are those that do not pass, beside others."""

    name: str
    heading: str
    folded: bool
    size: int
    groups: list[Any]


class _Bars(NamedTuple):
    """All of them on one axis from `low`, by tier: of each class the first ones, and the others."""

    low: float
    words: Mapping[str, str]
    tiers: list[_Tier]


def _tiers(placed: Iterable[tuple[IndicatorRecord, _Shown]]) -> list[_Tier]:
    """What is shown of scores by tier, then by class as (its name, its heading, what is shown)."""
    found: dict[str, dict[str, list[_Shown]]] = {tier: {} for tier in TIERS}
    for item, shown in placed:
        found[tier_of(item)].setdefault(class_of(item), []).append(shown)
    alone = sum(map(bool, found.values())) == 1
    return [
        _Tier(
            tier,
            TIERS[tier],
            tier == "rest" and not alone,
            sum(map(len, classes.values())),
            [(name, CLASSES[name], classes[name]) for name in CLASSES if name in classes],
        )
        for tier, classes in found.items()
        if classes
    ]


def _bars(found: RankedVerdicts) -> _Bars:
    """The first figure: by runs five outcomes; by windows the share of covered events."""
    words = OUTCOMES if found.budget is not None else {"timely": "covered", "miss": "miss"}
    shown: list[tuple[IndicatorRecord, _Bar]] = []
    for place, item in enumerate(found.ranked):
        at, detection = found.point(item), found.detection(item)
        if at is not None:
            shares, chance = outcome_shares(at)
        elif detection.rate is not None:
            shares = {"timely": 100 * detection.rate, "miss": 100 - 100 * detection.rate}
            chance = None if detection.chance is None else 100 * detection.chance
        else:
            continue
        said = ", ".join(f"{words[name]} {share:.0f}" for name, share in shares.items() if share)
        if at is not None and at.answer == "ABSTAIN":
            said = "abstains: no finite threshold keeps the budget"
        known = place, shown_name(item), item.x_alarm_eligible
        shown.append((item, _Bar(*known, shares, chance, detection, said)))
    low = false_scale((bar.shares.get("false", 0.0) for _, bar in shown), found.budget)
    shown = [(item, bar._replace(cut=bar.shares.get("false", 0.0) > low)) for item, bar in shown]
    seen = {name: said for name, said in words.items() if any(b.shares.get(name) for _, b in shown)}
    tiers, room = [], _ROOM
    for tier in _tiers(shown):
        groups = []
        for name, heading, bars in tier.groups:
            most = _MOST.get(name, 6) if tier.folded else max(1, min(_MOST.get(name, 6), room))
            most = len(bars) if len(bars) <= most + 1 else most  # one more takes no more room
            groups.append((heading, bars[:most], bars[most:]))
            room -= min(most, len(bars))
        tiers.append(tier._replace(groups=groups))
    return _Bars(-low, seen, tiers)


def class_of(item: IndicatorRecord) -> str:
    """A key of `CLASSES`."""
    kind = kind_of(item)
    if kind == BASELINE:
        return kind
    # Somebody's own column may be called like an indicator, and be something else.
    if item.x_sees_test_labels is None:
        return _UNDECLARED
    return "label-using" if item.x_sees_test_labels else kind


# What a score opens to, for the script.


class Run(NamedTuple):
    """A judged run: its seed or name, t*, and why it has none."""

    name: str
    event: float | None
    without: str


def _runs(event: EventRecord) -> list[Run]:
    """The runs that alarms were counted on, in their order."""
    return [
        Run(name, step, event.x_without_event.get(name, ""))
        for name, step in event.t_event_by_seed.items()
        if name not in event.x_excluded
    ]


def timing(design: Design | None) -> dict[str, Any] | None:
    """What a chart needs of the design."""
    if design is None:
        return None
    names = ("horizon", "safe_gap", "burn_in", "primary_fpr", "primary_run_budget")
    return {name: getattr(design, name) for name in names}


def alarms_of(
    first: FirstAlarmRecord, runs: Sequence[Run], design: Design, at: FirstAlarmPointRecord
) -> list[tuple[float | None, str]] | None:
    """The first alarm of each run and what it was; None where that is not held, or does not add up
    to the counts of the verdict."""
    if len(first.alarm_steps) != len(runs):
        return None
    found: list[tuple[float | None, str]] = []
    for step, run in zip(first.alarm_steps, runs, strict=True):
        if step is None:
            outcome = "rejection" if run.event is None else "miss"
        elif run.event is None or run.event - step >= design.safe_gap:
            outcome = "false"
        else:
            outcome = "timely" if run.event - step <= design.horizon else "early"
        found.append((step, outcome))
    outcomes = [outcome for _, outcome in found]
    agrees = all(outcomes.count(name) == count for name, count in outcome_counts(at).items())
    return found if agrees else None


def _score(
    item: IndicatorRecord,
    design: Design | None,
    found: RankedVerdicts,
    runs: Sequence[Run],
    whys: dict[str, int],
) -> dict[str, Any]:
    """Everything about one score that its row does not say; `whys` numbers the reasons for which a
    number is missing, which many share."""
    lacking = item.x_null_reasons
    first, at, point = item.x_first_alarm, found.point(item), item.point(found.target)
    alarms, detection = None, found.detection(item)
    if first is not None and at is not None and design is not None:
        alarms = alarms_of(first, runs, design, at)
    robust = item.layer_D if first is None else first.robustness
    return {
        "name": one_line(shown_name(item)) or "(no name)",
        "kind": class_of(item),
        "family": item.family,
        "may": item.x_alarm_eligible,
        "sentence": item.x_sentence or item.layer_D.sensitivity_notes,
        "reasons": [reason(code) for code in item.x_reasons],
        "gates": [[one.unit, one.gate, one.state, one.detail or ""] for one in item.x_gates],
        "detected": detection.rate,
        "detectedInterval": _pair(detection.interval),
        "budgets": [budget_data(one) for one in first.at_budget] if first else [],
        "targets": [_target_data(item, one) for one in item.layer_B.achieved],
        "alarms": alarms,
        "leads": [] if alarms or point is None else list(point.x_lead_times),
        "baselines": [
            {"name": baseline_name(name), "detected": one.detection_rate, "p": one.p_value}
            for name, one in detection.baselines.items()
        ],
        "events": [{"event": one.event, **budget_data(one.at)} for one in first.other_events]
        if first
        else [],
        "strata": [part.model_dump(include=_STRATUM) for part in item.x_strata],
        "robustness": robust.model_dump(include=_ROBUSTNESS),
        "auc": item.layer_A.auc,
        "ap": item.layer_A.ap,
        "support": item.diagnostics.effective_support_size,
        "ties": item.diagnostics.tie_dominance,
        "comments": item.diagnostics.comments,
        "missing": [(name, whys.setdefault(why, len(whys))) for name, why in lacking.items()],
    }


_STRATUM = {"name", "where", "passed", "sentence"}
_ROBUSTNESS = {"family_size", "label_flip_rate", "sensitivity_notes"}


def _target_data(item: IndicatorRecord, at: AchievedRecord) -> dict[str, Any]:
    """What a chart shows of one target by windows."""
    point = item.point(at.target)
    return {
        "target": at.target,
        "rate": at.achieved,
        "interval": _pair(at.x_interval),
        "threshold": at.x_threshold,
        "abstains": at.x_answer == "ABSTAIN",
        "state": at.x_state,
        "coverage": follow(point, "coverage"),
        "chance": follow(point, "chance"),
        "lead": follow(point, "lead_time_median"),
    }


def budget_data(at: FirstAlarmPointRecord) -> dict[str, Any]:
    """What a chart shows of one budget."""
    return {
        "budget": at.budget,
        "words": in_words(at.budget),
        "threshold": at.threshold,
        "abstains": at.answer == "ABSTAIN",
        "state": at.state,
        "rate": at.false_alarm_rate,
        "interval": _pair(at.false_alarm_interval),
        "detected": at.detection_rate,
        "detectedInterval": _pair(at.detection_interval),
        "timely": at.timely_rate,
        "missed": at.miss_rate,
        "leads": [at.lead_q25, at.lead_median, at.lead_q75],
    }


def _pair(interval: IntervalRecord | None) -> tuple[float, float] | None:
    return None if interval is None else ends(interval)
