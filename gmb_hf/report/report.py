"""report.md: the answer first, then everything that it rests on.

The text lives in `report.md.j2`; this module gathers what it shows. Whatever a user named (scores,
tasks, paths) is escaped, so that it reads as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.base import escape
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_text
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.report.answer import (
    GROUPS,
    RankedVerdicts,
    answer,
    group_of,
)
from gmb_hf.report.page import CURVES, contents, embedded, write_page
from gmb_hf.report.run_curves import curves_of
from gmb_hf.report.sheet import template
from gmb_hf.report.tables import (
    events_table,
    rules_table,
    score_table,
    strata_table,
    unmet_gates_table,
    write_tables,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gmb_hf.benchmark.compat import Reproduction

_HEADLINE_ROWS = 8
FIGURES = {
    "first": "first_alarm",
    "summary": "label_summary",
    "curves": "grokking_curves",
    "fpr": "fpr_control",
    "aligned": "scores_around_event",
    "leads": "lead_times",
    "missed": "missed_events",
}
"""The figures that a report has a place for, and what their files are called."""


def render_report(
    results: Results,
    *,
    figures: Mapping[str, str] | None = None,
    note: str | None = None,
    next_command: str | None = None,
    folder: str | Path | None = None,
) -> str:
    """The report as Markdown.

    Args:
        results: what was found.
        figures: paths relative to the report, by the names in `FIGURES`; absent ones are left out.
        note: a remark below the answer, in Markdown, e.g. that few runs leave verdicts open.
        next_command: what to type next.
        folder: where the results file lies, for the definition of done to look into the table.
    """
    found = answer(results)
    # The best scores, at least the supported ones.
    best = sorted(found.subject, key=lambda item: item.label != SUPPORTED)
    headline = best[: max(len(found.supported), _HEADLINE_ROWS)]
    text = template("report.md.j2").render(
        title=f"Which scores may raise an alarm: {escape.markdown(results.meta.run_id)}",
        **contents(results, found, folder=folder, note=note, next_command=next_command),
        headline=len(headline),
        verdicts=headline_tables(found, headline),
        groups=[
            (heading, score_table(found, found.group(name)).md())
            for name, heading in GROUPS.items()
            if found.group(name)
        ],
        events_table=events_table(results, found.ranked),
        gates=unmet_gates_table(found.ranked),
        figures={name: (figures or {}).get(name) for name in FIGURES},
        design=results.design,
        strict=results.x_protocol == "strict",
        rules=rules_table(results).md(),
        strata=strata_table(found.ranked),
        failures=[
            (one.name, one.shown_label, one.x_sentence or one.layer_D.sensitivity_notes)
            for one in found.ranked
            if not one.x_alarm_eligible and group_of(one) != "control"
        ],
        tables=[
            (name.removeprefix("x_").removesuffix("_path"), path)
            for name, path in results.tables
            if path
        ],
    )
    # At most one empty line in a row, and a single one at the end.
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).rstrip() + "\n"


def headline_tables(found: RankedVerdicts, items: Sequence[IndicatorRecord]) -> str:
    """The verdicts on these scores, as Markdown.

    What may not be ranked together is in tables of its own, each under its heading.
    """
    tables = {}
    for name, heading in GROUPS.items():
        members = [item for item in found.group(name) if item in items]
        if members:
            tables[heading] = score_table(found, members).md()
    if len(tables) == 1:
        return "".join(tables.values())
    return "\n".join(f"*{heading}*\n\n{table}" for heading, table in tables.items())


# Everything that an evaluation leaves: results.yaml, tables/, figures/, report.md and report.html.


def write_evaluation(
    results: Results,
    folder: str | Path,
    figures: Mapping[str, Figure],
    *,
    curves: Mapping[str, Any] | None = None,
    **said: str | None,
) -> list[Path]:
    """Write an evaluation to a folder, which is made if it is not there; every file atomically.

    Figures are by the names in `FIGURES`; `curves` are of the runs, see `curves_of`; `note` and
    `next_command` are of the report, see `render_report`. Returns the files: report.md first, then
    report.html, results.yaml, tables, the curves and figures.
    """
    place, shown = Path(folder), {}
    written = [results.write(place / "results.yaml"), *write_tables(results, place / "tables")]
    if curves is not None:
        written.append(write_text(place / CURVES, embedded(curves) + "\n"))
    if figures:
        from gmb_hf.report.style import save_figure
    for name, file in FIGURES.items():
        if name in figures:
            written += save_figure(figures[name], place / "figures" / file)
            shown[name] = f"figures/{file}.png"
    text = render_report(results, figures=shown, folder=place, **said)
    page = write_page(results, place / "report.html", folder=place, curves=curves, **said)
    return [write_text(place / "report.md", text), page, *written]


def publish(
    found: Evaluation | Reproduction,
    out: str | Path,
    *,
    note: str | None = None,
    next_command: str | None = None,
    figures: bool = True,
) -> list[Path]:
    """Write results.yaml, report.md, report.html, curves.json, tables/ and figures/; returns the
    files, the report first.

    Args:
        found: what was judged, or put through the reference's computation.
        out: the folder.
        note, next_command: of the report, see `render_report`.
        figures: whether to draw figures/.
    """
    drawn: dict[str, Figure] = {}
    if figures:  # without them, nothing loads matplotlib
        from gmb_hf.report.figures import draw_with_runs

        drawn = draw_with_runs(found)
    curves = curves_of(found) if isinstance(found, Evaluation) else None
    return write_evaluation(
        found.results, out, drawn, curves=curves, note=note, next_command=next_command
    )


def refuse_others(folder: str | Path, **made_of: str | None) -> None:
    """Refuse a folder whose results were made of something else.

    Args:
        folder: of the results, which need not exist.
        made_of: fields of the provenance that are the same where the results may be replaced.

    Raises:
        InputError: other results are there, or a file of that name that cannot be read.
    """
    path = Path(folder) / "results.yaml"
    if not path.exists():
        return
    try:
        held = Results.read(path).x_provenance
    except InputError:
        held = None
    if held is None or any(getattr(held, name) != value for name, value in made_of.items()):
        raise InputError.at(
            path,
            "other_results",
            "holds results of other runs, or by another lock or design; choose another --out, or "
            "replace them with --force",
        )
