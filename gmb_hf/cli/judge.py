"""`gmb judge`: what checkpoints answer, and what another model thinks of it, as a score."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmb_hf.cli.options import Several

if TYPE_CHECKING:
    from gmb_hf.answers.files import Scores


app = typer.Typer(no_args_is_help=True)

_MOST_RUNS = 10


class AnswerCommand(Several):
    """`gmb judge answer`, whose --checkpoints takes several folders."""

    several = ("--checkpoints",)


Trust = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Answers = Annotated[Path, typer.Argument(help="A file of answers, JSON lines.")]
Out = Annotated[Path, typer.Option(help="The scores: .parquet, .csv or .jsonl.")]


@app.command("answer", cls=AnswerCommand)
def answer(
    checkpoints: Annotated[
        list[str],
        typer.Option(help="Folders of checkpoints, of runs, or RUN:STEP=FOLDER; several."),
    ],
    prompts: Annotated[
        Path, typer.Option(help='A prompt a line; or .jsonl with {"prompt": text} a line.')
    ],
    out: Annotated[Path, typer.Option(help="The file of answers.")] = Path("answers.jsonl"),
    samples: Annotated[
        int | None, typer.Option(help="Continuations of each prompt; 8 by default.")
    ] = None,
    new_tokens: Annotated[int, typer.Option(help="Tokens of a continuation, at most.")] = 32,
    temperature: Annotated[float, typer.Option(help="Of the sampling.")] = 0.7,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="One answer, the likeliest token each time.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the draws, the same at every checkpoint.")] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(help="Where the checkpoints have none: a folder or a name.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Continuations made at once.")] = 64,
    device: Device = "auto",
    trust_remote_code: Trust = False,
) -> None:
    """Let checkpoints answer prompts; those that have answered are not asked again."""
    from gmb_hf.answers.files import read_prompts
    from gmb_hf.answers.generating import Sampling, about_path, generate
    from gmb_hf.answers.models import find_checkpoints
    from gmb_hf.cli import screen as show

    sampling = Sampling(
        samples=(1 if greedy else 8) if samples is None else samples,
        new_tokens=new_tokens,
        temperature=temperature,
        greedy=greedy,
        seed=seed,
    )
    found = find_checkpoints(checkpoints)
    texts = read_prompts(prompts)
    with show.counting("checkpoints", len(found)) as done:
        answered = generate(
            found,
            texts,
            out,
            sampling,
            tokenizer=tokenizer,
            batch=batch_size,
            device=device,
            trust_remote_code=trust_remote_code,
            on_checkpoint=done,
        )
    runs = len({saved.run for saved in found})
    show.say(
        f"{len(found)} checkpoints of {runs} runs, {len(texts)} prompts, {sampling.samples} "
        f"answers each; {answered} checkpoints were asked now."
    )
    following = ["gmb", "judge", "rate", str(out), "--judge", "MODEL"]
    show.written([out, about_path(out)], following=shlex.join(following))


@app.command("rate")
def rate(
    answers: Answers,
    judge: Annotated[str, typer.Option(help="A folder, or a repository of the Hub.")],
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of a repository.")
    ] = None,
    how: Annotated[
        str | None, typer.Option(help="label (classifier), likelihood or yes-no (causal).")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Of a classifier: the label whose probability counts.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="What the judge reads, with {answer} and {prompt}.")
    ] = None,
    yes: Annotated[str, typer.Option(help="yes-no: the word that means good.")] = " yes",
    no: Annotated[str, typer.Option(help="yes-no: the word that means bad.")] = " no",
    out: Out = Path("scores.parquet"),
    name: Annotated[str, typer.Option(help="Column of the score.")] = "judge",
    cache: Annotated[
        Path | None, typer.Option(help="Scores paid for before; in the user's cache by default.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Answers rated at once.")] = 32,
    device: Device = "auto",
    trust_remote_code: Trust = False,
) -> None:
    """Rate answers by a model: a score for each checkpoint."""
    from gmb_hf.answers import judges
    from gmb_hf.answers.files import check_scores_path, read_answers
    from gmb_hf.answers.models import find_model
    from gmb_hf.cli import screen as show

    check_scores_path(out, name)
    asking = judges.Asking(how=how, label=label, template=template, yes=yes, no=no)
    given = read_answers(answers)
    source = find_model(judge, revision=revision, trust_remote_code=trust_remote_code)
    model = judges.load_judge(source, asking, device=device)
    distinct = len({one.pair for one in given})
    with (
        judges.ScoreCache(cache or judges.default_cache()) as known,
        show.counting("answers", distinct) as done,
    ):
        found = judges.rate(
            given,
            model,
            known,
            name=name,
            batch=batch_size,
            on_rated=lambda count: done("", count),
        )
    empty = f"; {found.empty} empty ones have no score" if found.empty else ""
    show.say(
        f"{len(given):,} answers, {distinct:,} of them distinct: {found.rated_now:,} rated now, "
        f"{found.from_cache:,} known from before{empty}."
    )
    _finish(out, found.scores)


@app.command("consistency")
def consistency(
    answers: Answers,
    first_words: Annotated[
        int | None, typer.Option(help="Compare so many words of an answer; all by default.")
    ] = None,
    any_case: Annotated[
        bool, typer.Option("--any-case", help="Capitals are as good as small letters.")
    ] = False,
    out: Out = Path("consistency.parquet"),
) -> None:
    """Do samples agree with each other? The share that differ from the most frequent one."""
    from gmb_hf.answers import files

    files.check_scores_path(out, files.NAME)
    given = files.read_answers(answers)
    _finish(out, files.consistency(given, first_words=first_words, any_case=any_case))


def _finish(out: Path, scores: Scores) -> None:
    """Write the scores, show those of the first run, and say how they come into a log."""
    from gmb_hf.answers.files import write_scores
    from gmb_hf.cli import screen as show

    path = write_scores(out, scores)
    _show(scores)
    show.say(scores.made_by)
    following = ["gmb", "runs", "join", "--runs", "LOGS", "--scores", str(path)]
    show.written([path], following=shlex.join(following))


def _show(scores: Scores) -> None:
    from gmb_hf.cli import screen as show
    from gmb_hf.escape import number
    from gmb_hf.tables import Column, Line, Row, Table

    columns = (
        Column("run", shrinks_to=12),
        Column("checkpoints", align="r"),
        *(Column(head, align="r") for head in ("first", "lowest", "highest", "last")),
    )
    by_run: dict[str, list[tuple[int, float]]] = {}
    for row in scores.rows:
        by_run.setdefault(row.run, []).append((row.step, row.score))
    rows: list[Row | Line] = []
    for run, points in list(by_run.items())[:_MOST_RUNS]:
        values = [value for _, value in sorted(points)]
        ends = (values[0], min(values), max(values), values[-1])
        rows.append((run, len(values), *(number(value, 4) for value in ends)))
    if len(by_run) > _MOST_RUNS:
        rows.append(Line(f"and {len(by_run) - _MOST_RUNS} more runs"))
    show.console().print()
    show.table(Table(columns, rows))
