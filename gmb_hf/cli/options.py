"""What commands with the same options ask of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from gmb_hf.base.errors import InputError, choose, fraction
from gmb_hf.cli import output


def option(help: str, *names: str, **more: Any) -> Any:
    """An option with its help text; the name is that of the parameter unless given."""
    return typer.Option(*names, help=help, **more)


def product(help: str, example: str) -> Any:
    """`--out` of a command that makes a file for others to read; an error proposes the example."""
    return option(help, "--out", metavar=example)


def argument(help: str, **more: Any) -> Any:
    """An argument with its help text."""
    return typer.Argument(help=help, **more)


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


Runs = Annotated[
    list[str],
    option(
        "Run logs: files, folders, globs, panel:NAME, or hf://datasets/ORG/NAME@REV.",
        "--runs",
        autocompletion=_run_sources,
    ),
]
MoreRuns = Annotated[list[str] | None, argument("What an unquoted glob leaves.", hidden=True)]
StepColumn = Annotated[str, option("Column of steps.")]
RunColumn = Annotated[str, option("Column that tells runs apart.")]
RunPreset = Annotated[
    str,
    option(
        "smoke, quick, standard, hierarchical, formal, icl, paper or reference.",
        autocompletion=preset_names,
    ),
]
Changes = Annotated[list[str] | None, option("Change a field: training.lr=3e-3.", "--set")]
Jobs = Annotated[
    int | None, option("Groups of seeds trained at a time; on a CPU one a core if not given.")
]
Track = Annotated[
    list[str] | None, option("tensorboard, trackio or wandb; several are possible.", "--track")
]
Device = Annotated[str, option("auto, cpu or cuda.")]
Repo = Annotated[str, argument("Repository of the Hub.", metavar="ORG/NAME")]
Answer = Annotated[Path | None, option("Write the answer; by default it is only printed.", "--out")]
Private = Annotated[bool, option("Make a new repository private.", "--private")]
Figures = Annotated[bool, option("Draw the figures.", "--figures/--no-figures")]


def different_data(help: str) -> Any:
    """The option that takes different data all the same."""
    return option(help, "--allow-fingerprint-mismatch")


DifferentData = Annotated[
    bool, different_data("Compare runs on different data all the same; every table says so.")
]


def _to_json(asked: bool) -> bool:
    output.current().json |= asked
    return asked


def _quiet(asked: bool) -> bool:
    output.speak(quiet=asked)
    return asked


def _verbose(count: int) -> int:
    output.speak(verbose=count)
    return count


# `expose_value`: what they do is done when they are read, and no command has them as parameters.
Json = Annotated[
    bool,
    option("Print the answer as one JSON object.", "--json", callback=_to_json, expose_value=False),
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

    def command(json: Json = False, quiet: _Quiet = False, verbose: _Verbose = 0) -> None:
        """A command with these alone, of which typer makes the parameters."""

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return [one for one in typer.main.get_command(app).params if one.name != "help"]


class Command(TyperCommand):
    """A command of `gmb`: with `--json`, and help that cuts no name of an option."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += _speaking()

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Arguments and options under their headings; a name that is long has its own line."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if (row := one.get_help_record(ctx)) is not None:
                heading = "Arguments" if one.param_type_name == "argument" else "Options"
                heading = getattr(one, "rich_help_panel", None) or heading
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=min(30, formatter.width // 3))


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
        """As of typer; the class of a command is `Command` if not given."""
        return super().command(name, cls=cls or Command, **settings)


def several(*names: str) -> type[Command]:
    """A command without arguments, whose options of these names take several values after one."""

    class Several(Command):
        def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
            """`--text a b --out c` is read as `--text a --text b --out c`."""
            return super().parse_args(ctx, spread(args, names))

    return Several


def spread(words: Sequence[str], several: Sequence[str]) -> list[str]:
    """Each value of the options named with the option before it.

    >>> spread(["--text", "a", "b", "--out", "c"], ["--text"])
    ['--text', 'a', '--text', 'b', '--out', 'c']
    """
    found: list[str] = []
    option, values = "", 0
    for word in words:
        if word.startswith("-"):
            option, values = word, 0
        else:
            if option in several and values:
                found.append(option)
            values += 1
        found.append(word)
    return found


def typed(context: typer.Context) -> dict[str, str]:
    """The options that stand on the command line: name of the parameter -> as it is typed."""
    return {
        str(parameter.name): parameter.opts[0]
        for parameter in context.command.params
        if getattr(parameter, "expose_value", True)
        and getattr(context.get_parameter_source(str(parameter.name)), "name", "") == "COMMANDLINE"
    }


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


# The options of a design: one for each field that `Design` declares.

_TYPED = "gmb_hf.design"  # where a context keeps what was typed of the design


class DesignCommand(Command):
    """A command with an option for each field of a design, beside options of its own.

    The fields are read when the command runs or is explained, so that `gmb --help` stays fast.
    `design_fields` has the values that were typed.
    """

    without: ClassVar[Sequence[str]] = ()
    """Sections of the design that this command does not take."""
    only: ClassVar[Sequence[str]] = ()
    """The sections that it takes; all others if none are named."""
    also: ClassVar[Mapping[str, str]] = {}
    """Second spellings: field -> option."""
    _fields: Sequence[str] | None = None

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """The options of the command, and those of the design that it does not have itself."""
        if self._fields is None:
            own = {word for parameter in self.params for word in (parameter.name, *parameter.opts)}
            added = [
                parameter
                for parameter in _design_parameters(self.without, self.only, self.also)
                if own.isdisjoint((parameter.name, *parameter.opts))
            ]
            self.params += added
            self._fields = [str(parameter.name) for parameter in added]
        return super().get_params(ctx)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command; what was typed of the design is kept aside for `design_fields`."""
        given = {name: ctx.params.pop(name) for name in self._fields or ()}
        said = typed(ctx)
        ctx.meta[_TYPED] = {name: value for name, value in given.items() if name in said}
        return super().invoke(ctx)


def spelled(name: str) -> str | None:
    """The option of a field of a design; None where it has none."""
    from gmb_hf.design.design import Design

    option = Design.views(name).get("option", name.replace("_", "-"))
    return option and f"--{option}"


def sources(runs: Sequence[str] | None, more_runs: Sequence[str] | None) -> list[str]:
    """What `--runs` names, and what an unquoted glob leaves behind it."""
    return [*(runs or []), *(more_runs or [])]


def _design_parameters(
    without: Sequence[str], only: Sequence[str], also: Mapping[str, str]
) -> list[Any]:
    from gmb_hf.base.documents import choices_in, scalar_in
    from gmb_hf.design.design import Design

    wanted = {}
    for name, field in Design.model_fields.items():
        option, section = spelled(name), Design.places()[name].partition(".")[0]
        left_out = section in without or (only and section not in only)
        if option is None or left_out or len(choices_in(field.annotation)) == 1:
            continue
        flag = Design.views(name).get("flag")
        kind: Any = bool if flag else scalar_in(field.annotation) or str
        kind = list[str] if name == "also_events" else kind
        about = _OTHER_EVENT if name == "also_events" else field.description or name
        words = [f"{option}/--no-{option[2:]}"] if kind is bool and not flag else [option]
        words = [also[name], *words] if name in also else words
        default = None if field.is_required() or flag else field.default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        described = typer.Option(
            *words,
            help=f"{about[0].upper()}{about[1:]}.",
            show_default=shown if default not in (None, (), False) else False,
            metavar="EVENT" if name == "also_events" else None,
            rich_help_panel="The design",
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
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return [one for one in typer.main.get_command(app).params if one.name != "help"]


def design_words(context: typer.Context) -> list[str]:
    """What was typed of the design, to be typed again; without the metric."""
    from gmb_hf.design.design import Design

    words: list[str] = []
    for name, value in context.meta.get(_TYPED, {}).items():
        option = str(spelled(name))
        if "flag" in Design.views(name):
            words += [option] if value else []
        elif isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif name != "metric":
            several = value if isinstance(value, list) else [value]
            words += [word for one in several for word in (option, str(one))]
    return words


def design_fields(context: typer.Context) -> dict[str, Any]:
    """The fields of the design that stand on the command line, as `Design` takes them.

    Raises:
        InputError: a value cannot be read; or an option belongs to another type of event, and must
            not look as if it counted.
    """
    return {name: _value(name, value) for name, value in context.meta.get(_TYPED, {}).items()}


def _value(name: str, value: Any) -> Any:
    """What was typed for a field: text stands for lists and for whatever else is no scalar."""
    from gmb_hf.base.documents import choices_in, items_in, parse_yaml, scalar_in
    from gmb_hf.design.design import Design

    annotation, option = Design.model_fields[name].annotation, str(spelled(name))
    if name == "also_events":
        return [_event(option, text) for text in value]
    if "flag" in Design.views(name):
        return Design.views(name)["flag"] if value else Design.model_fields[name].default
    choices = Design.views(name).get("choices") or choices_in(annotation)
    if choices:
        return choose("value", value, tuple(choices), where=option)
    if scalar_in(annotation) is not None:
        return value
    items, kind = items_in(annotation), Design.views(name).get("items", "numbers")
    if items is None:
        return parse_yaml(value, where=option)
    if items is str:
        return value.split(",")
    if items is int:  # such as `0:32,40`, where a:b is a, ..., b - 1
        parts = [part.partition(":") for part in value.split(",")]
        try:
            ranges = [range(int(a), int(b) if colon else int(a) + 1) for a, colon, b in parts]
        except ValueError:
            hint = "write whole numbers with commas, e.g. 80,100,120 or 0:32"
            raise InputError(f"{option} {value!r}: {hint}") from None
        return [number for some in ranges for number in some]
    found = numbers(option, value, kind=kind, example="0.01,0.05,0.10")
    return [fraction(option, rate) for rate in found] if kind == "rates" else list(found)


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
    for name in context.meta.get(_TYPED, {}):
        other = Design.other_event(name, event)
        if other is not None:
            raise InputError(
                f"{spelled(name)} belongs to {other}; leave it out with --event {event}, or choose "
                f"--event {other}"
            )


@contextmanager
def said_in_options() -> Iterator[None]:
    """What is wrong with a design that was made inside is said in options."""
    from gmb_hf.design.design import Design

    try:
        yield
    except InputError as error:
        if not str(error).startswith(f"{Design.kind}: "):
            raise
        raise error.reworded(in_options(str(error))) from error


def in_options(message: str) -> str:
    """A message about fields of a design, by their places, in the options that set them."""
    from gmb_hf.design.design import Design

    def worded(name: str, value: str | None) -> str | None:
        alone = (None, "true", Design.views(name).get("flag"))
        return spelled(name) if value in alone else f"{spelled(name)} {value}"

    message = message.replace("candidates: the name", "--score: the name")
    return Design.reworded(message, worded)
