"""Language models: `gmb heldout`, `gmb benchmark`, `gmb scaling` and `gmb judge`.

Their loss on text, their answers to standard tasks, loss by size, and answers rated by a model.

Arguments:
    answers: A file of answers, JSON lines.

Options:
    trust_remote_code: Run code that comes with a model.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.escape import number, p_value
from gmb_hf.base.files import check_not_read
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import output, screen
from gmb_hf.cli.options import App, several

if TYPE_CHECKING:
    from gmb_hf.protocol.answers.files import CheckpointScores
    from gmb_hf.protocol.scaling.fit import ScalingFit

app = App()
HeldoutCommand = several("--checkpoint", "--text", "--domain")
BenchmarkCommand = several()


def heldout(
    checkpoint: list[str],
    out: Path,
    text: list[str] | None = None,
    domain: list[str] | None = None,
    stride: int | None = None,
    block: int | None = None,
    batch_size: int | None = None,
    separator: str | None = None,
    device: str = "auto",
    figures: bool = True,
) -> None:
    """Loss, perplexity and bits per byte of language models on text held out.

    Options:
        checkpoint: Folders of saved models with tokenizers: [NAME=]FOLDER ...
        out (heldout): Folder for the tables, the figure and heldout.json.
        text: NAME=FILE ..., or names as of --domain.
        domain: From the Hub: tinystories, shakespeare, wikitext2, wikitext103, ptb, lambada.
        stride: Tokens between windows; half of a block by default.
        block: Tokens of a window; the model's longest input by default.
        batch_size: Windows computed at once; 16 by default.
        separator: Between documents of a file; <|endoftext|> by default.
    """
    from gmb_hf.protocol.language.heldout import evaluate_heldout, write_heldout
    from gmb_hf.tasks.text import DOMAINS, SEPARATOR, read_sources

    domains = [choose("domain", name, tuple(DOMAINS), where="--domain") for name in domain or ()]
    chosen = [*(text or ()), *domains]
    texts = read_sources(chosen, separator=SEPARATOR if separator is None else separator)
    with screen.counting("held out") as done:
        found = evaluate_heldout(
            checkpoint,
            texts,
            block=block,
            stride=stride,
            batch=batch_size,
            device=device,
            on_bytes=lambda what, read: done(f"{what}: {read:,} bytes"),
        )
    paths = write_heldout(found, out, figures=figures)
    columns = (
        Column("model", take="model", shrinks_to=16),
        Column("loss", number, take="score.loss"),
        Column("perplexity", lambda value: number(value, 1), take="score.perplexity"),
        Column("bits/byte", number, take="score.bits_per_byte"),
        Column("tokens", "{:,}".format, take="score.tokens"),
    )
    rows: list[Row | Line] = []
    for name, about in found.texts.items():
        counts = f"{about['bytes']:,} bytes, documents: {about['documents']:,}"
        rows.append(Line(f"{name} ({counts})"))
        rows += Table.of((row for row in found.rows if row.text == name), columns).rows
    screen.table(Table(columns, rows), above=True)
    cuts = {(about["block"], about["stride"]) for about in found.models.values()}
    shown = "; ".join(f"{block} tokens, stride {stride}" for block, stride in sorted(cuts))
    screen.say(
        f"Windows: {shown}. loss: nats per token. bits/byte compares tokenizers.", style="dim"
    )
    again = ("heldout", "--checkpoint", *checkpoint, "OTHER=FOLDER", "--text", *chosen)
    screen.written(paths, following=screen.command(*again, out=out))


def benchmark(
    checkpoints: list[str],
    tasks: str,
    out: Path,
    num_fewshot: int | None = None,
    limit: int | None = None,
    batch_size: int | None = None,
    baseline: str | None = None,
    device: str = "auto",
    figures: bool = True,
) -> None:
    """Standard benchmarks by lm-eval: scores with their errors, and checkpoints compared.

    Arguments:
        checkpoints ([NAME=]CHECKPOINT...): Saved models with tokenizers, or repositories.

    Options:
        tasks: Of lm-eval, with commas, e.g. lambada_openai; or FILE.yaml.
        out (benchmark): Folder; an earlier start resumes.
        num_fewshot: Examples before a question; what the task says by default.
        limit: Questions of each task; all by default.
        batch_size: Rows computed at once; 16 by default.
        baseline: Which checkpoint the others are held against; the first.
    """
    from gmb_hf.protocol.answers.standard import evaluate_standard, sentences, write_standard

    quiet = output.current().quiet or not sys.stderr.isatty()
    with screen.counting("checkpoints", len(checkpoints)) as done:
        found = evaluate_standard(
            checkpoints,
            [name.strip() for name in tasks.split(",") if name.strip()],
            out,
            shots=num_fewshot,
            limit=limit,
            batch=batch_size,
            device=device,
            baseline=baseline,
            quiet=quiet,
            on_model=done,
        )
    paths = write_standard(found, out, figures=figures)
    columns = [
        Column("task", take="task", shrinks_to=12),
        Column("metric", take="metric"),
        Column("model", take="model", shrinks_to=12),
        Column("value", number, take="value"),
        Column("± stderr", number, take="stderr"),
        Column("samples", "{:,}".format, take="samples"),
    ]
    screen.table(Table.of(found.scores, columns), above=True)
    pairs = [
        Column("task", take="task", shrinks_to=12),
        Column("metric", take="metric"),
        Column(f"less {found.baseline}", take="model", shrinks_to=12),
        Column("difference", number, take="difference"),
        Column("p", p_value, take="p_adjusted"),
    ]
    if found.comparisons:
        screen.table(Table.of(found.comparisons, pairs), above=True)
    for sentence in sentences(found):
        screen.say(sentence)
    screen.notes(found.notes)
    given = (*checkpoints, "OTHER=FOLDER")
    screen.written(paths, following=screen.command("benchmark", *given, tasks=tasks, out=out))


# `gmb scaling`: a grid of trainings, and the law that its losses follow.


@app.command(cls=several("--grid", "--text"))
def run(
    grid: list[str],
    out: Path,
    source: str | None = None,
    text: list[str] | None = None,
    variants: str = "dense",
    seeds: str = "0:3",
    changes: list[str] | None = None,
    save_models: bool = False,
    device: str = "auto",
) -> None:
    """Train a grid of sizes, tokens, variants and seeds, on text or a source of known entropy.

    Options:
        grid: params=1k,3k,10k tokens=64k,256k; all combinations.
        out (runs/scaling): Folder of the grid; the same command resumes.
        source: markov, or markov:seed=1,symbols=4,order=8,scale=1.2,decay=0.5.
        text: NAME=FILE ..., or tinystories, shakespeare from the Hub.
        variants: E.g. dense,banded-64,sort-4.
        seeds: E.g. 0:3 or 1337,42,7.
        save_models: Keep the trained models.
    """
    from gmb_hf.protocol.scaling.grid import ScalingConfig, grid_notes, parse_grid, run_grid
    from gmb_hf.protocol.scaling.source import parse_source
    from gmb_hf.protocol.sequential.run import parse_variants
    from gmb_hf.tasks.text import read_sources
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import chosen_device, make_accelerator

    if text and source is not None:
        raise InputError("--text and --source are both given; train a grid on one of them")
    config, cells = ScalingConfig().changed(changes or []), parse_grid(grid)
    chosen = None if text else parse_source(source or "markov")
    accelerator = make_accelerator(cpu=chosen_device(device) == "cpu")
    found = run_grid(
        config,
        cells,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        source=chosen,
        texts=read_sources(text, held_out=False) if text else (),
        accelerator=accelerator,
        save_models=save_models,
    )
    if not accelerator.is_main_process:
        return
    columns = (
        Column("variant", take="variant", shrinks_to=12),
        Column("N", "{:,}".format, take="non_embedding"),
        Column("tokens", "{:,}".format, take="tokens"),
        Column("seed", str, take="seed"),
        Column("FLOPs", "{:.2e}".format, take="flops"),
        Column("loss", "{:.4f}".format, take=lambda one: None if one.diverged else one.loss),
        Column("floor", "{:.4f}".format, take="floor"),
    )
    screen.table(Table.of(found, columns), above=True)
    screen.say("loss: held out, nats per token; N: parameters without embeddings.", style="dim")
    screen.notes(grid_notes(found))
    following = shlex.join(["gmb", "scaling", "fit", str(out)])
    screen.written([out / "scaling.yaml", out / "cells"], following=following)


@app.command()
def fit(
    folder: Path,
    out: Path | None = None,
    count: str = "non_embedding",
    draws: int = 1000,
    seed: int = 0,
    baseline: str | None = None,
    figures: bool = True,
) -> None:
    """Fit L(N, D) = A/N^alpha + B/D^beta + E with intervals; compare variants at equal compute.

    Arguments:
        folder: Folder of gmb scaling run.

    Options:
        out: Where to write; fit/ in the folder if not given.
        count: What N counts: non_embedding, or parameters for all of them.
        draws: Of the bootstrap.
        seed: Of the draws.
        baseline: Which variant the others are held against; dense, or the first.
    """
    from gmb_hf.protocol.scaling.report import scaling_report

    options = {"count": count, "draws": draws, "seed": seed, "baseline": baseline}
    found, files = scaling_report(folder, out, figures=figures, **options)  # type: ignore[arg-type]
    _print_fit(found)
    target = files[0].parent
    following = shlex.join(["cat", str(target / "tables" / "law.md")])
    screen.written(files, following=following)


def _print_fit(found: ScalingFit) -> None:
    """The laws, the sentences and the notes."""
    from gmb_hf.protocol.scaling.report import scaling_sentences

    names = ("alpha", "beta", "E", "optimal_n")
    columns = [Column("variant", shrinks_to=12), Column("cells", str)]
    columns += [Column(name.replace("_", " "), "{:.3f}".format) for name in names]
    columns.append(Column("exact E", "{:.4f}".format))
    rows = [
        (name, one.cells, *(one.numbers[key] for key in names), one.known)
        for name, one in found.variants.items()
    ]
    screen.answered(fit=found)
    screen.table(Table(columns, rows), above=True)
    for sentence in scaling_sentences(found):
        screen.say(sentence)
    notes = [*found.notes, *(note for one in found.variants.values() for note in one.notes)]
    screen.notes(notes)


# `gmb judge`.

judging = App()

_MOST_RUNS = 10


@judging.command("answer", cls=several("--checkpoints"))
def answer(
    checkpoints: list[str],
    prompts: Path,
    out: Path,
    samples: int | None = None,
    new_tokens: int = 32,
    temperature: float = 0.7,
    greedy: bool = False,
    seed: int = 0,
    tokenizer: str | None = None,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> None:
    """Let checkpoints answer prompts; those that have answered are not asked again.

    Options:
        checkpoints: Folders of checkpoints, of runs, or RUN:STEP=FOLDER; several.
        prompts: A prompt a line; or .jsonl with {"prompt": text} a line.
        out (answers.jsonl): The file of answers.
        samples: Continuations of each prompt; 8 by default.
        new_tokens: Tokens of a continuation, at most.
        temperature: Of the sampling.
        greedy: One answer, the likeliest token each time.
        seed: Of the draws, the same at every checkpoint.
        tokenizer: Where the checkpoints have none: a folder or a name.
        batch_size: Continuations made at once.
    """
    from gmb_hf.protocol.answers.files import read_prompts
    from gmb_hf.protocol.answers.generating import AnswerSampling, about_path, generate
    from gmb_hf.protocol.answers.models import find_checkpoints

    check_not_read(out, prompts)
    sampling = AnswerSampling(
        samples=(1 if greedy else 8) if samples is None else samples,
        new_tokens=new_tokens,
        temperature=temperature,
        greedy=greedy,
        seed=seed,
    )
    found = find_checkpoints(checkpoints)
    texts = read_prompts(prompts)
    with screen.counting("checkpoints", len(found)) as done:
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
    counts: Any = {"n_checkpoints": len(found), "n_runs": len({saved.run for saved in found})}
    counts |= {"n_prompts": len(texts), "samples": sampling.samples, "now": answered}
    screen.tell("answered", **counts)
    following = screen.command("judge", "rate", out, judge="MODEL", out="scores.parquet")
    screen.written([out, about_path(out)], following=following)


@judging.command("rate")
def rate(
    answers: Path,
    out: Path,
    judge: str,
    revision: str | None = None,
    how: str | None = None,
    label: str | None = None,
    template: str | None = None,
    yes: str = " yes",
    no: str = " no",
    name: str = "judge",
    cache: Path | None = None,
    batch_size: int = 32,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> None:
    """Rate answers by a model: a score for each checkpoint.

    Options:
        out (scores.parquet): The scores: .parquet, .csv or .jsonl.
        judge: A folder, or a repository of the Hub.
        revision: Branch, tag or commit of a repository.
        how: label (classifier), likelihood or yes-no (causal).
        label: Of a classifier: the label whose probability counts.
        template: What the judge reads, with {answer} and {prompt}.
        yes: yes-no: the word that means good.
        no: yes-no: the word that means bad.
        name: Column of the score.
        cache: Scores paid for before; in the user's cache by default.
        batch_size: Answers rated at once.
    """
    from gmb_hf.base.pretrained import find_model
    from gmb_hf.protocol.answers import judges
    from gmb_hf.protocol.answers.files import check_scores_path, read_answers

    check_scores_path(out, name)
    check_not_read(out, answers)
    asking = judges.Asking(how=how, label=label, template=template, yes=yes, no=no)
    given = read_answers(answers)
    source = find_model(judge, revision=revision, trust_remote_code=trust_remote_code)
    model = judges.load_judge(source, asking, device=device)
    distinct = len({one.pair for one in given})
    with (
        judges.ScoreCache(cache or judges.default_cache()) as known,
        screen.counting("answers", distinct) as done,
    ):
        found = judges.rate(
            given, model, known, name=name, batch=batch_size, on_rated=lambda count: done("", count)
        )
    screen.tell("rated", n=len(given), distinct=distinct, found=found)
    _finish(out, found.scores)


@judging.command("consistency")
def consistency(
    answers: Path, out: Path, first_words: int | None = None, any_case: bool = False
) -> None:
    """Do samples agree with each other? The share that differ from the most frequent one.

    Options:
        out (scores.parquet): The scores: .parquet, .csv or .jsonl.
        first_words: Compare so many words of an answer; all by default.
        any_case: Capitals are as good as small letters.
    """
    from gmb_hf.protocol.answers import files

    files.check_scores_path(out, files.NAME)
    check_not_read(out, answers)
    given = files.read_answers(answers)
    _finish(out, files.consistency(given, first_words=first_words, any_case=any_case))


def _finish(out: Path, scores: CheckpointScores) -> None:
    """Write the scores, show those of the first run, and say how they come into a log."""
    from gmb_hf.protocol.answers.files import write_scores

    path = write_scores(out, scores)
    columns = (
        Column("run", shrinks_to=12),
        Column("checkpoints", align="r"),
        *(Column(head, align="r") for head in ("first", "lowest", "highest", "last")),
    )
    by_run: dict[str, list[tuple[int, float]]] = {}
    for row in scores.rows:
        by_run.setdefault(row.run, []).append((row.step, row.score))
    screen.answered(
        made_by=scores.made_by, runs={run: dict(sorted(points)) for run, points in by_run.items()}
    )
    rows = []
    for run, points in by_run.items():
        values = [value for _, value in sorted(points)]
        ends = (values[0], min(values), max(values), values[-1])
        rows.append((run, len(values), *(number(value, 4) for value in ends)))
    screen.table(Table(columns, section(rows, most=_MOST_RUNS, rest=" runs")), above=True)
    screen.say(scores.made_by)
    joining = screen.command("runs", "join", runs="LOGS", scores=path, out="joined.parquet")
    screen.written([path], following=joining)
