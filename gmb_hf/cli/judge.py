"""`gmb judge`: what checkpoints answer, and what another model thinks of it, as a score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gmb_hf.cli import screen as show
from gmb_hf.cli.options import App, Device, argument, option, product, several
from gmb_hf.escape import number
from gmb_hf.tables import Column, Table, section

if TYPE_CHECKING:
    from gmb_hf.answers.files import Scores

app = App()

_MOST_RUNS = 10

Trust = Annotated[bool, option("Run code that comes with a model.", "--trust-remote-code")]
Answers = Annotated[Path, argument("A file of answers, JSON lines.")]
Out = Annotated[Path, product("The scores: .parquet, .csv or .jsonl.", "scores.parquet")]


@app.command("answer", cls=several("--checkpoints"))
def answer(
    checkpoints: Annotated[
        list[str], option("Folders of checkpoints, of runs, or RUN:STEP=FOLDER; several.")
    ],
    prompts: Annotated[Path, option('A prompt a line; or .jsonl with {"prompt": text} a line.')],
    out: Annotated[Path, product("The file of answers.", "answers.jsonl")],
    samples: Annotated[int | None, option("Continuations of each prompt; 8 by default.")] = None,
    new_tokens: Annotated[int, option("Tokens of a continuation, at most.")] = 32,
    temperature: Annotated[float, option("Of the sampling.")] = 0.7,
    greedy: Annotated[
        bool, option("One answer, the likeliest token each time.", "--greedy")
    ] = False,
    seed: Annotated[int, option("Of the draws, the same at every checkpoint.")] = 0,
    tokenizer: Annotated[
        str | None, option("Where the checkpoints have none: a folder or a name.")
    ] = None,
    batch_size: Annotated[int, option("Continuations made at once.")] = 64,
    device: Device = "auto",
    trust_remote_code: Trust = False,
) -> None:
    """Let checkpoints answer prompts; those that have answered are not asked again."""
    from gmb_hf.answers.files import read_prompts
    from gmb_hf.answers.generating import Sampling, about_path, generate
    from gmb_hf.answers.models import find_checkpoints

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
    following = show.command("judge", "rate", out, judge="MODEL", out="scores.parquet")
    show.written([out, about_path(out)], following=following)


@app.command("rate")
def rate(
    answers: Answers,
    out: Out,
    judge: Annotated[str, option("A folder, or a repository of the Hub.")],
    revision: Annotated[str | None, option("Branch, tag or commit of a repository.")] = None,
    how: Annotated[str | None, option("label (classifier), likelihood or yes-no (causal).")] = None,
    label: Annotated[
        str | None, option("Of a classifier: the label whose probability counts.")
    ] = None,
    template: Annotated[
        str | None, option("What the judge reads, with {answer} and {prompt}.")
    ] = None,
    yes: Annotated[str, option("yes-no: the word that means good.")] = " yes",
    no: Annotated[str, option("yes-no: the word that means bad.")] = " no",
    name: Annotated[str, option("Column of the score.")] = "judge",
    cache: Annotated[
        Path | None, option("Scores paid for before; in the user's cache by default.")
    ] = None,
    batch_size: Annotated[int, option("Answers rated at once.")] = 32,
    device: Device = "auto",
    trust_remote_code: Trust = False,
) -> None:
    """Rate answers by a model: a score for each checkpoint."""
    from gmb_hf.answers import judges
    from gmb_hf.answers.files import check_scores_path, read_answers
    from gmb_hf.pretrained import find_model

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
            given, model, known, name=name, batch=batch_size, on_rated=lambda count: done("", count)
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
    out: Out,
    first_words: Annotated[
        int | None, option("Compare so many words of an answer; all by default.")
    ] = None,
    any_case: Annotated[
        bool, option("Capitals are as good as small letters.", "--any-case")
    ] = False,
) -> None:
    """Do samples agree with each other? The share that differ from the most frequent one."""
    from gmb_hf.answers import files

    files.check_scores_path(out, files.NAME)
    given = files.read_answers(answers)
    _finish(out, files.consistency(given, first_words=first_words, any_case=any_case))


def _finish(out: Path, scores: Scores) -> None:
    """Write the scores, show those of the first run, and say how they come into a log."""
    from gmb_hf.answers.files import write_scores

    path = write_scores(out, scores)
    columns = (
        Column("run", shrinks_to=12),
        Column("checkpoints", align="r"),
        *(Column(head, align="r") for head in ("first", "lowest", "highest", "last")),
    )
    by_run: dict[str, list[tuple[int, float]]] = {}
    for row in scores.rows:
        by_run.setdefault(row.run, []).append((row.step, row.score))
    show.answered(
        made_by=scores.made_by, runs={run: dict(sorted(points)) for run, points in by_run.items()}
    )
    rows = []
    for run, points in by_run.items():
        values = [value for _, value in sorted(points)]
        ends = (values[0], min(values), max(values), values[-1])
        rows.append((run, len(values), *(number(value, 4) for value in ends)))
    show.table(Table(columns, section(rows, most=_MOST_RUNS, rest=" runs")), above=True)
    show.say(scores.made_by)
    joining = show.command("runs", "join", runs="LOGS", scores=path, out="joined.parquet")
    show.written([path], following=joining)
