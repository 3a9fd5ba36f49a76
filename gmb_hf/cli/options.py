"""What commands with the same options ask of them.

Where neither a command nor its module says what a parameter is, this holds:

Arguments:
    repo (ORG/NAME): Repository of the Hub.

Options:
    runs: Run logs: files, folders, globs, panel:NAME, or hf://datasets/ORG/NAME@REV.
    preset: smoke, quick, standard, hierarchical, formal, icl, paper or reference.
    changes, --set (field=value): Change a field: training.lr=3e-3.
    jobs: Groups of seeds trained at a time; on a CPU one a core if not given.
    device: auto, cpu or cuda.
    out: Write the answer; by default it is only printed.
    allow_fingerprint_mismatch: Compare runs on different data all the same; every table says so.

More options:
    step_column: Column of steps.
    run_column: Column that tells runs apart.
    track: tensorboard, trackio or wandb; several are possible.
    private: Make a new repository private.
    figures: Draw the figures.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from gmb_hf.base.errors import InputError, choose, fraction, unknown
from gmb_hf.cli import output


def option(help: str, *names: str, **more: Any) -> Any:
    """An option with its help text; the name is that of the parameter unless given."""
    return typer.Option(*names, help=help, **more)


DESIGN = "The design"
"""The heading of the options of a design."""


class Rare(str):
    """The heading of options that `--help` leaves out and `--help-all` shows, as this text."""


# What a shell offers where a value is typed; what is not known here is completed as a file.


def panel_names(incomplete: str) -> list[str]:
    """The panels that are known."""
    from gmb_hf.hub.panels import names

    return [name for name in names() if name.startswith(incomplete)]


def _run_sources(incomplete: str) -> list[str]:
    prefix = "panel:"
    if not incomplete.startswith(prefix):
        return [prefix] if incomplete and prefix.startswith(incomplete) else []
    return [prefix + name for name in panel_names(incomplete.removeprefix(prefix))]


def score_names(incomplete: str) -> list[str]:
    """The indicators; the columns of a log are scores as well."""
    from gmb_hf.indicators.catalogue import names

    return [name for name in names() if name.startswith(incomplete)]


def preset_names(incomplete: str) -> list[str]:
    """The presets of `gmb run`."""
    from gmb_hf.training.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def _to_json(asked: bool) -> bool:
    output.current().json |= asked
    return asked


def _quiet(asked: bool) -> bool:
    output.speak(quiet=asked)
    return asked


def _verbose(count: int) -> int:
    output.speak(verbose=count)
    return count


_ALL = "help_all"
_LAST = ("json", _ALL, "help")


def _help_all(context: typer.Context, asked: bool) -> None:
    if asked:
        context.meta[_ALL] = True
        print(context.get_help())
        raise typer.Exit


# `expose_value`: what they do is done when they are read, and no command has them as parameters.
Json = Annotated[
    bool,
    option("Print the answer as one JSON object.", "--json", callback=_to_json, expose_value=False),
]
_HelpAll = Annotated[
    bool,
    option(
        "Show every option, with those that few people need.",
        "--help-all",
        hidden=True,  # where it would show the same
        callback=_help_all,
        is_eager=True,
        expose_value=False,
    ),
]
_QUIET: Any = {"callback": _quiet, "expose_value": False}
_VERBOSE: Any = {"callback": _verbose, "expose_value": False, "count": True}
_SAY_LESS = "Print only the answer and errors."
_SAY_MORE = "Print the log as well, and where a defect lies; -vv for more."
Quiet = Annotated[bool, option(_SAY_LESS, "--quiet", "-q", **_QUIET)]
Verbose = Annotated[int, option(_SAY_MORE, "--verbose", "-v", show_default=False, **_VERBOSE)]
# `gmb` shows these two, and every command takes them.
_Quiet = Annotated[bool, option(_SAY_LESS, "--quiet", "-q", hidden=True, **_QUIET)]
_Verbose = Annotated[int, option(_SAY_MORE, "--verbose", "-v", hidden=True, **_VERBOSE)]


@functools.cache
def _speaking() -> list[Any]:
    """The options of every command."""

    def command(
        json: Json = False, quiet: _Quiet = False, verbose: _Verbose = 0, help_all: _HelpAll = False
    ) -> None:
        """A command with these alone, of which typer makes the parameters."""

    return _parameters(command)


def _parameters(command: Callable[..., None]) -> list[Any]:
    """The parameters that typer makes of those of a function."""
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return [one for one in typer.main.get_command(app).params if one.name != "help"]


_MOST_SHOWN = 14  # options of a command; of one that has more, `--help` leaves out the rare ones
_UNITS = ("steps", "checkpoints", "events", "runs", "rows", "seconds")  # which a default has, too
_KINDS = {"int": "number", "float": "number", "path": "file", "": "text"}


class Command(TyperCommand):
    """A command of `gmb`: with `--json`, and help that cuts no name of an option."""

    many: ClassVar[Sequence[str]] = ()
    """Options that take several values after one, as an unquoted glob leaves them."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """`--text a b --out c` is read as `--text a --text b --out c`."""
        return super().parse_args(ctx, spread(args, self.many))

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += _speaking()

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """What stands behind the name of the command; nothing that is hidden."""
        shown = (one for one in self.get_params(ctx) if not _hidden(one))
        return ["[OPTIONS]", *(word for one in shown for word in one.get_usage_pieces(ctx))]

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Arguments and options under their headings; a name that is long has its own line."""
        shown = [one for one in self.get_params(ctx) if one.name == _ALL or not _hidden(one)]
        panels = {one: getattr(one, "rich_help_panel", None) for one in shown}
        left_out = [one for one in shown if isinstance(panels[one], Rare)]
        if len(shown) <= _MOST_SHOWN or not left_out:
            left_out = [one for one in shown if one.name == _ALL]
        elif ctx.meta.get(_ALL):
            left_out = []
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in sorted(shown, key=lambda one: one.name in _LAST):
            if one not in left_out:
                heading = "Arguments" if one.param_type_name == "argument" else "Options"
                sections.setdefault(panels[one] or heading, []).append(_explained(one, ctx))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=min(30, formatter.width // 3))


def _hidden(parameter: Any) -> bool:
    return bool(parameter.hidden)


def _explained(one: Any, ctx: typer.Context) -> tuple[str, str]:
    """The names of an option with the kind of its value, and what it is with its default."""
    if one.param_type_name == "argument":
        name = one.metavar or f"{one.name}{'...' if one.nargs != 1 else ''}"
        return name, f"{one.help or ''}{'  [required]' if one.required else ''}"
    both = [", ".join(sorted(opts, key=len)) for opts in (one.opts, one.secondary_opts) if opts]
    name, flag, default = " / ".join(both), one.is_flag or one.count, one.default
    if not flag:
        shown = one.display_type(ctx) if hasattr(one, "display_type") else one.make_metavar()
        kind = next(word for key, word in _KINDS.items() if key in shown.lower())
        name += f" {one.metavar or kind}"
    if not one.show_default or isinstance(one.show_default, str):
        default = one.show_default or None
    elif flag and default is not None:
        default = ", ".join(one.opts if default else one.secondary_opts) or None
    elif isinstance(default, (list, tuple)):
        default = ",".join(map(str, default)) or None
    if one.metavar in _UNITS and str(default)[-1:].isdigit():
        default = f"{default} {one.metavar}"
    end = "required" if one.required else "" if default is None else f"default: {default}"
    return name, f"{one.help or ''}{f'  [{end}]' if end else ''}"


_Function = TypeVar("_Function", bound=Callable[..., Any])


class Group(TyperGroup):
    """Commands under one name, each explained in a whole sentence."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Name and first paragraph of each command."""
        commands = [self.commands[name] for name in self.list_commands(ctx)]
        rows = [
            (str(one.name), " ".join((one.help or "").split("\n\n")[0].split()))
            for one in commands
            if not one.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class App(typer.Typer):
    """Commands under one name; without any it shows its help."""

    def __init__(self, *, no_args_is_help: bool = True, **settings: Any) -> None:
        plain: Any = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "cls": Group}
        super().__init__(no_args_is_help=no_args_is_help, **{**plain, **settings})

    def command(
        self, name: str | None = None, *, cls: Any = None, **settings: Any
    ) -> Callable[[_Function], _Function]:
        """As of typer; the class is `Command` if not given, and the docstring says the options."""
        register = super().command

        def add(function: _Function) -> _Function:
            about = declare(function)
            return register(name, cls=cls or Command, help=about, **settings)(function)

        return add


_HEADING = re.compile(r"\n\n([A-Z][\w ]*):\n(?= )")
_ENTRY = re.compile(r"(\w+)(?:, (--[\w/-]+))?(?: \((.+?)\))?: (.*)")
_COMPLETED = {"column": score_names, "indicator": score_names, "panel": panel_names}
_COMPLETED_EVERYWHERE = {"runs": _run_sources, "preset": preset_names, "name": panel_names}


class _Entry(NamedTuple):
    """What a docstring says of a parameter."""

    heading: str
    spelled: str | None
    kind: str
    text: str

    def parameter(self, default: Any, name: str, *, everywhere: bool) -> Any:
        """What typer makes of it; `everywhere`: it stands in the docstring of a module."""
        kind, _, shown = self.kind.partition(" = ")
        completed = _COMPLETED_EVERYWHERE.get(name) if everywhere else _COMPLETED.get(kind)
        about: dict[str, Any] = {"help": self.text, "metavar": kind or None}
        about |= {"show_default": shown or True, "autocompletion": completed}
        if self.heading == "Arguments":
            return typer.Argument(**about)
        flag = f"--{name.replace('_', '-')}" if default is False else None
        if self.heading != "Options":
            about["rich_help_panel"] = Rare(self.heading.replace("More options", "Options"))
        return typer.Option(*filter(None, [self.spelled or flag]), **about)


def _explained_in(docstring: str | None) -> tuple[str, dict[str, _Entry]]:
    """The text of a docstring, and what it says of each parameter."""
    about, *blocks = _HEADING.split(inspect.cleandoc(docstring or ""))
    found: dict[str, _Entry] = {}
    for heading, block in zip(blocks[::2], blocks[1::2], strict=True):
        for entry in re.sub(r"\n {8,}", " ", f"\n{block.rstrip()}").split("\n    ")[1:]:
            if (said := _ENTRY.fullmatch(entry)) is None:
                raise ValueError(f"{entry!r} explains no parameter")
            name, spelled_so, kind, text = said.groups()
            found[name] = _Entry(heading, spelled_so, kind or "", text)
    return about, found


def declare(function: Callable[..., Any]) -> str:
    """Make of the docstring of a command what its parameters say in help; returns the rest of it.

    A docstring reads as the help does. A parameter stands under `Arguments:`, `Options:` or `More
    options:` (which `--help-all` shows) as `name, --spelled (kind = default): What it is.`, where
    all but the name may be left out. Under another heading it is rare as well. A bool that is False
    is a flag. What several commands have stands in the docstring of their module, or of this one.
    """
    about, own = _explained_in(function.__doc__)
    everywhere: dict[str, _Entry] = {}
    for module in (__name__, function.__module__):
        everywhere |= _explained_in(sys.modules[module].__doc__)[1]
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        known = own.get(name) or everywhere.get(name)
        if known is not None and not hasattr(hints[name], "__metadata__"):  # done before
            made = known.parameter(parameter.default, name, everywhere=name not in own)
            hints[name] = Annotated[hints[name], made]
    function.__annotations__ = hints
    return about


def several(*names: str) -> type[Command]:
    """A command whose options of these names take several values after one."""
    return type("Several", (Command,), {"many": names})


def spread(words: Sequence[str], several: Sequence[str]) -> list[str]:
    """Each value of the options named with the option before it.

    >>> spread(["--text", "a", "b", "--out", "c"], ["--text"])
    ['--text', 'a', '--text', 'b', '--out', 'c']
    """
    found: list[str] = []
    option, values = "", 0
    for word in words:
        if word.startswith("-"):
            option, equals, _ = word.partition("=")
            values = int(bool(equals))
        else:
            if option in several and values:
                found.append(option)
            values += 1
        found.append(word)
    return found


def typed(context: typer.Context) -> dict[str, str]:
    """What stands on the command line: parameter, or field of the design -> as it is typed."""
    flags = {
        str(parameter.name): max(parameter.opts, key=len)
        for parameter in context.command.params
        if getattr(parameter, "expose_value", True)
        and getattr(context.get_parameter_source(str(parameter.name)), "name", "") == "COMMANDLINE"
    }
    fields = {name: said.how for name, said in context.meta.get(_TYPED, {}).items()}
    if fields:
        flags.pop(_CHANGES, None)
    return flags | fields


def again(context: typer.Context, *names: str, of_design: bool = True) -> list[str]:
    """What was typed for these parameters, and of the design, to be typed in another command."""
    words: list[str] = []
    on_line = typed(context)
    off = {str(one.name): max(one.secondary_opts, default="") for one in context.command.params}
    for name in names:
        given = context.params.get(name)
        flag = on_line.get(name)
        if flag is None or given is None:
            continue
        if isinstance(given, bool):
            words.append(flag if given else off[name])
        else:
            several = given if isinstance(given, list) else [given]
            words += [word for one in several for word in (flag, str(one))]
    return words + (design_words(context) if of_design else [])


_REQUIRED = {"score": "--score", "horizon": "--horizon", "safe_gap": "--safe-gap"}


def require_own(context: typer.Context, otherwise: str, *, of_panel: bool = False) -> None:
    """Refuse a command about runs that say nothing of their design, unless it is typed.

    Raises:
        InputError: score, horizon or safe gap (`of_panel`: the score) are missing.
    """
    on_line = typed(context)
    wanted = {"score": _REQUIRED["score"]} if of_panel else _REQUIRED
    on_line |= {"score": "--pretrained"} if "pretrained" in on_line else {}
    lacking = ", ".join(flag for name, flag in wanted.items() if name not in on_line)
    if lacking:
        raise InputError(
            f"{lacking} missing: say what to judge, e.g. --score COLUMN --metric COLUMN "
            f"--horizon 2000 --safe-gap 4000; {otherwise}"
        )


def scores_of(context: typer.Context) -> list[str]:
    """The scores that were named: by `--score`, then by `--pretrained`, as `own_score` has them."""
    from gmb_hf.benchmark.own_runs import PRETRAINED

    given, fitted = context.params, []
    for name in context.params.get("pretrained") or ():
        if name.startswith("hf://"):
            from gmb_hf.hub.scores import pull_score

            name = str(pull_score(name))
        fitted.append(f"{PRETRAINED}{name}")
    return [*(given.get("score") or ()), *fitted]


def check_sign(sign: int) -> None:
    """Refuse any sign but +1 and -1."""
    if sign not in (1, -1):
        raise InputError(f"--sign must be +1 or -1, got {sign}")


def numbers(option: str, text: str, *, kind: str = "numbers", example: str) -> tuple[float, ...]:
    """Numbers from text with commas between them; `kind` says what they are, for the error."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r}: write {kind} with commas, e.g. {example}") from None


# The options of a design: one for each field that `Design` declares, and `--set` for all of them.

_TYPED = "gmb_hf.design"  # where a context keeps what was typed of the design
_CHANGES = "changes"  # the parameter of `--set`


@dataclass(frozen=True)
class Said:
    """A field of the design as it was typed.

    Attributes:
        how: its option, or what stands before the `=` of `--set`: "--fpr", "--set fpr_targets".
        value: what the parser made of it; behind `--set` the text.
    """

    how: str
    value: Any

    @property
    def by_set(self) -> bool:
        """Whether it was said by `--set`."""
        return self.how.startswith("--set ")


class DesignCommand(Command):
    """A command with an option for each field of a design, beside options of its own.

    The fields are read when the command runs or is explained, so that `gmb --help` stays fast.
    `design_fields` has the values that were typed, by options or by `--set`.
    """

    many = ("--runs", "--pilot")
    without: ClassVar[Sequence[str]] = ()
    """Sections of the design that this command does not take."""
    only: ClassVar[Sequence[str]] = ()
    """The sections that it takes; all others if none are named."""
    also: ClassVar[Mapping[str, str]] = {}
    """Second spellings: field -> option."""
    _added: Sequence[str] | None = None

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """The options of the command, and those of the design that it does not have itself."""
        if self._added is None:
            own = {word for parameter in self.params for word in (parameter.name, *parameter.opts)}
            added = [
                parameter
                for parameter in _design_parameters(self.taken(), self.also)
                if own.isdisjoint((parameter.name, *parameter.opts))
            ]
            self.params += added
            self._added = [str(parameter.name) for parameter in added]
        return super().get_params(ctx)

    def taken(self) -> dict[str, str]:
        """Name of each field that the command takes -> its place in the document."""
        from gmb_hf.design.design import Design

        def takes(section: str) -> bool:
            return section in self.only if self.only else section not in self.without

        places = Design.places().items()
        return {name: place for name, place in places if takes(place.partition(".")[0])}

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command; what was typed of the design is kept aside for `design_fields`."""
        on_line = typed(ctx)
        given = {name: ctx.params.pop(name) for name in self._added or () if name != _CHANGES}
        said = {
            name: Said(on_line[name], value) for name, value in given.items() if name in on_line
        }
        changes = ctx.params.pop(_CHANGES) or ()
        others = [text for text in changes if not self._is_set(text, on_line, said)]
        if _CHANGES not in (self._added or ()):
            ctx.params[_CHANGES] = others
        ctx.meta[_TYPED] = said
        output.current().fields = {name: one.how for name, one in said.items()}
        return super().invoke(ctx)

    def _is_set(self, text: str, on_line: Mapping[str, str], said: dict[str, Said]) -> bool:
        """Whether a `--set` is of the design, as which it is kept; else of another config."""
        from gmb_hf.design.design import Design

        taken = self.taken()
        known = {**{name: name for name in taken}, **{taken[name]: name for name in taken}}
        keys = {f"benchmark.{Design.views(name).get('preset', name)}": name for name in taken}
        path, equals, value = (part.strip() for part in text.partition("="))
        name = known.get(path) or keys.get(path)
        how = f"--set {path}"
        before = None if name is None else on_line.get(name) or (name in said and said[name].how)
        if before:
            raise InputError(f"{before} and {how} say the same field; leave one of them out")
        if path not in known and "." in path and _CHANGES not in (self._added or ()):
            return False
        if name is None or path not in known:
            raise unknown("field of a design", path, known, where=f"--set {text}")
        if not equals:
            raise InputError(f"--set {text!r}: write it as field=value, e.g. horizon=200")
        said[name] = Said(how, value)
        return True


def spelled(name: str) -> str | None:
    """The option of a field of a design; None where it has none."""
    from gmb_hf.design.design import Design

    option = Design.views(name).get("option", name.replace("_", "-"))
    return option and f"--{option}"


def _field_names(incomplete: str) -> list[str]:
    from gmb_hf.design.design import Design

    return [f"{name}=" for name in Design.model_fields if name.startswith(incomplete)]


_KIND_OF = {int: "number", float: "number", str: "text"}


def _design_parameters(taken: Iterable[str], also: Mapping[str, str]) -> list[Any]:
    from gmb_hf.base.documents import choices_in, items_in, scalar_in, unit_of
    from gmb_hf.design.design import Design

    changes = option(
        "Set any field of the design by its name, or by its place in the document: horizon=200, "
        "event.type=E_plateau.",
        "--set",
        metavar="field=value",
        autocompletion=_field_names,
    )
    wanted: dict[str, Any] = {_CHANGES: Annotated[list[str] | None, changes]}
    for name in taken:
        field, views, spelling = Design.model_fields[name], Design.views(name), spelled(name)
        if spelling is None or len(choices_in(field.annotation)) == 1:
            continue
        flag = views.get("flag")
        scalar, items = scalar_in(field.annotation), items_in(field.annotation)
        kind: Any = bool if flag else scalar or str
        words = [f"{spelling}/--no-{spelling[2:]}"] if kind is bool and not flag else [spelling]
        about, _, unset = (field.description or name).partition("; null: ")
        metavar = unit_of(field) or (items is int and "seeds") or _KIND_OF.get(items or kind)
        if items is not None:
            metavar = f"{metavar},..."
        if name == "also_events":
            kind, metavar, about = list[str], "event", _OTHER_EVENT
        default = None if field.is_required() or flag else field.default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        described = typer.Option(
            *([also[name]] if name in also else []),
            *words,
            help=f"{about[0].upper()}{about[1:]}.",
            show_default=unset or (shown if default not in (None, (), False) else False),
            metavar=metavar,
            rich_help_panel=DESIGN if views.get("common") else Rare(DESIGN),
        )
        wanted[name] = Annotated[kind | None, described]

    def command(**_: Any) -> None:
        """A command with these options alone, of which typer makes the parameters."""

    command.__annotations__ = wanted
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in wanted.items()
        ]
    )
    return _parameters(command)


def design_words(context: typer.Context) -> list[str]:
    """What was typed of the design, to be typed again."""
    from gmb_hf.design.design import Design

    words: list[str] = []
    for name, said in context.meta.get(_TYPED, {}).items():
        if said.by_set:
            words += ["--set", f"{said.how.removeprefix('--set ')}={said.value}"]
        elif "flag" in Design.views(name) or isinstance(said.value, bool):
            words.append(said.how if said.value else said.how.replace("--", "--no-", 1))
        else:
            several = said.value if isinstance(said.value, list) else [said.value]
            words += [word for one in several for word in (said.how, str(one))]
    return words


def design_fields(context: typer.Context) -> dict[str, Any]:
    """The fields of the design that stand on the command line, as `Design` takes them.

    Raises:
        InputError: a value cannot be read.
    """
    return {name: _value(name, said) for name, said in context.meta.get(_TYPED, {}).items()}


def refuse_candidates(fields: Mapping[str, Any], scores: object) -> None:
    """Refuse candidates by `--set` beside scores by `--score`."""
    if scores and "candidates" in fields:
        raise InputError("--score and --set candidates say the same field; leave one of them out")


def _value(name: str, said: Said) -> Any:
    """What was typed for a field: text stands for lists and for whatever else is no scalar."""
    from gmb_hf.base.documents import choices_in, items_in, read_value, scalar_in
    from gmb_hf.design.design import Design

    annotation, how, value = Design.model_fields[name].annotation, said.how, said.value
    views = Design.views(name)
    if name == "also_events" and not said.by_set:
        return [_event(how, text) for text in value]
    if "flag" in views and not said.by_set:
        return views["flag"] if value else Design.model_fields[name].default
    choices = views.get("choices") or choices_in(annotation)
    if choices:
        words = {str(one).lower() if isinstance(one, bool) else one: one for one in choices}
        return words[choose("value", value, tuple(words), where=how)]
    if scalar_in(annotation) is not None and not said.by_set:
        return value
    items, kind = items_in(annotation), views.get("items", "numbers")
    if items is float:
        found = numbers(how, value, kind=kind, example="0.01,0.05,0.10")
        return [fraction(how, rate) for rate in found] if kind == "rates" else list(found)
    where = f"{how}={value}" if said.by_set else f"{how} {value!r}"
    return read_value(annotation, value, where=where)


_EVENT = "TYPE[:key=value,...]"
_OTHER_EVENT = (
    f"another event that the same scores are shown on, {_EVENT}, e.g. E_jump:jump=.2,new-max with "
    "the options of an event as keys; may be given several times"
)


def _event(option: str, text: str) -> dict[str, Any]:
    """An event from words such as `E_jump:jump=.2,new-max`, by the keys of the section `event`.

    The keys are the options that define the event of a design, without their dashes.
    """
    from gmb_hf.base.documents import choices_in, parse_yaml
    from gmb_hf.design.design import Design
    from gmb_hf.design.event_types import EVENT_TYPES

    places = {name: place for name, place in Design.places().items() if place.startswith("event.")}
    known = {
        str(spelled(name)).removeprefix("--"): name
        for name in places
        if name != "event_type" and len(choices_in(Design.model_fields[name].annotation)) != 1
    }
    where = f"{option} {text!r}"
    kind, _, rest = text.partition(":")
    found: dict[str, Any] = {"type": choose("type of event", kind, tuple(EVENT_TYPES), where=where)}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        name = known[choose("key", key.strip(), tuple(known), where=where)]
        flag = Design.views(name).get("flag", Design.model_fields[name].annotation is bool)
        if bool(equals) == bool(flag):
            say = f"write {key} alone" if flag else f"write {key}=VALUE"
            raise InputError(f"{where}: {say}, as in {option} {_EVENT}")
        found[places[name].partition(".")[2]] = flag or parse_yaml(value, where=where)
    return found


def check_event(context: typer.Context, event: str | None) -> None:
    """Refuse an option that belongs to another type of event than this one (None: the default).

    Raises:
        InputError: an option that would be passed over must not look as if it counted.
    """
    from gmb_hf.design.design import Design

    event = event or Design.model_fields["event_type"].default
    for name, said in context.meta.get(_TYPED, {}).items():
        other = Design.other_event(name, event)
        if other is not None:
            raise InputError(
                f"{said.how} belongs to {other}; leave it out with --event {event}, or choose "
                f"--event {other}"
            )


@contextmanager
def said_in_options(*, every: bool = False) -> Iterator[None]:
    """What is wrong with a design that was made inside, or `every` message, is said in options."""
    from gmb_hf.design.design import Design

    try:
        yield
    except InputError as error:
        if not (every or str(error).startswith(f"{Design.kind}: ")):
            raise
        raise error.reworded(in_options(str(error))) from error


def in_options(message: str) -> str:
    """A message about fields of a design, by their places, in the options that set them."""
    from gmb_hf.design.design import Design

    def worded(name: str, value: str | None) -> str | None:
        how = output.current().fields.get(name) or spelled(name)
        by_set = how is not None and how.startswith("--set")
        if value is None or (not by_set and value in ("true", Design.views(name).get("flag"))):
            return how
        return f"{how}{'=' if by_set else ' '}{value}"

    message = message.replace("candidates: the name", "--score: the name")
    return Design.reworded(message, worded)
