"""What mkdocs does for the site beside showing the pages as they are written.

- Terms of the glossary are linked where a page first uses them, with their definition as a tooltip.
- Pages that follow from the code are made anew: commands, fields of a design, the changelog.
- What the pages link outside this folder (examples, cards of the metrics) is copied into the site.
- The leaderboard, which `make docs` builds first, stands under `leaderboard/`.
- Docstrings are read as they are written here: doctests anywhere, entries of several names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import griffe
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LEADERBOARD = ROOT / "build" / "leaderboard"
"""Where `make docs` builds it."""
GLOSSARY = "glossary.md"
ENTRY = re.compile(r"^- (\*\*.+?\*\*): (.+)", re.MULTILINE)
"""An entry of the glossary: its terms in bold, and what they mean."""
BY_HAND = {
    "blocked",
    "candidate",
    "combination",
    "configuration",
    "control",
    "early",
    "evaluate",
    "explore",
    "family",
    "floor",
    "gate",
    "judge",
    "layer",
    "lead",
    "lock",
    "look",
    "margin",
    "miss",
    "monitor",
    "negatives",
    "phase",
    "positive",
    "promised",
    "protocol",
    "rank",
    "run",
    "score",
    "shown",
    "target",
    "transfer",
    "variant",
    "window",
}
"""Terms that are everyday words as well: pages link those themselves where they need it."""
UNTOUCHED = {"a", "code", "pre", "h1", "h2", "h3", "h4", "script", "style"}


def anchor(term: str) -> str:
    """`first alarm` -> `first-alarm`, `E_jump` in backticks -> `e_jump`."""
    return re.sub(r"[^a-z0-9_]+", "-", term.strip("`").lower()).strip("-")


def entries() -> Iterator[tuple[list[str], str]]:
    """The terms of each entry, and its first sentence without markup."""
    for bold, text in ENTRY.findall((DOCS / GLOSSARY).read_text(encoding="utf-8")):
        said = re.sub(r"\[(.+?)\]\(.+?\)|[`*\\]", r"\1", text)
        first = re.match(r".+?[.](?= [A-Z]|$)", said)
        yield re.findall(r"\*\*(.+?)\*\*", bold), first[0] if first else said


class Terms(Treeprocessor):
    """Links the first use of each term; the glossary's own entries get their anchors."""

    def __init__(self, md: Markdown) -> None:
        super().__init__(md)
        known = [(term, anchor(terms[0]), said) for terms, said in entries() for term in terms]
        self.said = {place: said for _, place, said in known}
        self.meaning = {term: (at, said) for term, at, said in known if term not in BY_HAND}
        words = sorted((t for t in self.meaning if "`" not in t), key=len, reverse=True)
        self.pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)
        self.exact = {term.lower(): term for term in words}

    def run(self, root: Element) -> None:
        page = HERE.src_uri
        if page == GLOSSARY:
            return self._anchors(root)
        if page.startswith("api/") or page in GENERATED:
            return None
        self.seen: set[str] = set()
        self.link = f"{'../' * page.count('/')}{GLOSSARY}#"
        for link in root.iter("a"):  # those that the page has written itself
            place = (link.get("href") or "").removeprefix(self.link)
            if place in self.said:
                self.seen.add(place)
                self._linked(link, (place, self.said[place]))
        return self._walk(root)

    def _anchors(self, root: Element) -> None:
        for item in root.iter("li"):
            names = item.findall("strong") or item.findall("p/strong")
            if names:
                item.set("id", anchor("".join(names[0].itertext())))

    def _walk(self, node: Element) -> None:
        if node.tag in UNTOUCHED:
            return
        for child in list(node):
            if child.tag == "code" and child.text is not None and not len(child):
                self._code(node, child)
            self._walk(child)
        self._text(node, None)
        for child in list(node):
            self._text(node, child)

    def _new(self, term: str) -> tuple[str, str] | None:
        """The anchor and the meaning of a term that the page has not linked yet."""
        if term not in self.meaning or self.meaning[term][0] in self.seen:
            return None
        self.seen.add(self.meaning[term][0])
        return self.meaning[term]

    def _linked(self, link: Element, found: tuple[str, str]) -> None:
        link.set("href", self.link + found[0])
        link.set("title", found[1])
        link.set("class", "term")

    def _code(self, node: Element, child: Element) -> None:
        found = self._new(f"`{child.text}`")
        if found is not None:
            link = Element("a")
            self._linked(link, found)
            link.tail, child.tail = child.tail, None
            node[list(node).index(child)] = link
            link.append(child)

    def _text(self, node: Element, after: Element | None) -> None:
        """Link within the text of a node before its first child, or within the tail of a child."""
        text = node.text if after is None else after.tail
        for match in self.pattern.finditer(text or ""):
            found = self._new(self.exact[match[1].lower()])
            if found is None:
                continue
            link = Element("a")
            self._linked(link, found)
            link.text, link.tail = match[0], text[match.end() :]
            if after is None:
                node.text = text[: match.start()]
                node.insert(0, link)
            else:
                after.tail = text[: match.start()]
                node.insert(list(node).index(after) + 1, link)
            self._text(node, link)
            return


class Glossary(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After the words are read (20), before mkdocs checks links (0).
        md.treeprocessors.register(Terms(md), "terms", 10)


class _Here:
    src_uri = ""


HERE = _Here()
"""The page that is being made."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Glossary())  # type: ignore[arg-type]
    return config


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    HERE.src_uri = page.file.src_uri
    markdown = re.sub(r"\]\(\.\./metrics/(\w+)/README\.md\)", r"](metrics/\1.md)", markdown)
    return markdown.replace("](../examples/", "](examples/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for path in sorted((ROOT / "metrics").glob("*/README.md")):
        _, _, text = path.read_text(encoding="utf-8").split("---\n", 2)
        files.append(File.generated(config, f"metrics/{path.parent.name}.md", content=text))
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    for place, path in leaderboard():
        files.append(File.generated(config, f"leaderboard/{place}", abs_src_path=str(path)))
    return files


def leaderboard() -> Iterator[tuple[str, Path]]:
    """The files of its site that a browser reads, and where they lie.

    Raises:
        PluginError: it was not built.
    """
    if not (LEADERBOARD / "index.html").is_file():
        raise PluginError("the leaderboard is not built: make leaderboard")
    for path in sorted(LEADERBOARD.rglob("*")):
        if path.suffix in (".html", ".css", ".js", ".csv"):
            yield path.relative_to(LEADERBOARD).as_posix(), path


# Pages that follow from the code.


def changelog() -> str:
    """CHANGELOG.md, its links as of a page of this folder."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")


def design_fields() -> str:
    """Every field of a design, by the sections of the YAML document."""
    from gmb_hf.base.documents import choices_in
    from gmb_hf.cli.options import spelled
    from gmb_hf.design.candidates import Candidate, Ensemble
    from gmb_hf.design.design import Design
    from gmb_hf.design.strata import Stratum

    lines = [
        "# Fields of a design",
        "",
        "Everything that is fixed before a held-out run is judged. `gmb prereg init --out "
        "prereg.yaml` writes all of it with these explanations; options and keywords "
        "(`Design.minimal(horizon=400, ...)`) set the same fields. [Design and verdicts]"
        "(verdicts.md) says what they mean for a verdict. A keyword is given where it is not the "
        "field's name; a list is written `[a, b]`.",
        "",
    ]
    section = None
    for name, place in Design.places().items():
        field = Design.model_fields[name]
        own = place.rpartition(".")[0]
        if own != section:
            section = own
            about = Design.sections.get(own, "The remaining fields." if not own else "")
            lines += [f"## `{own}`" if own else "## Further fields", "", about, "", *_HEAD]
        default = "required" if field.is_required() else _shown(field.default)
        own_name, option = f"`{place.rpartition('.')[2]}`", spelled(name)
        if f"`{name}`" != own_name:
            own_name += f"<br>keyword `{name}`"
        if option is None or len(choices_in(field.annotation)) == 1:
            option = ""
        typed = f"`{option}`" if option else ""
        lines.append(f"| {own_name} | {typed} | {default} | {_cell(field.description)} |")
    for kind, heading in (
        (Candidate, "A candidate"),
        (Ensemble, "An ensemble (`x_ensemble`)"),
        (Stratum, "A stratum (`x_strata`)"),
    ):
        lines += ["", f"## {heading}", "", "| field | default | meaning |", "| :-- | :-- | :-- |"]
        for name, field in kind.model_fields.items():
            default = (
                "required"
                if field.is_required()
                else _shown(field.get_default(call_default_factory=True))
            )
            lines.append(f"| `{name}` | {default} | {_cell(field.description)} |")
    return "\n".join(_single_heads(lines)) + "\n"


_HEAD = ["| field | option | default | meaning |", "| :-- | :-- | :-- | :-- |"]


def _single_heads(lines: list[str]) -> list[str]:
    """An empty line before each heading, so that the table above it ends."""
    out: list[str] = []
    for line in lines:
        if line.startswith("## ") and out and out[-1]:
            out.append("")
        out.append(line)
    return out


def _shown(default: Any) -> str:
    if default is None or default in ((), {}):
        return "none"
    text = ", ".join(map(str, default)) if isinstance(default, (tuple, list)) else str(default)
    return f"`{text}`"


def _cell(text: str | None) -> str:
    """Text in a table: its `|`, `*` and `<` are no markup."""
    return re.sub(r"([|*<\[\]])", r"\\\1", " ".join((text or "").split()))


def commands() -> str:
    """Every command with its arguments and options, as `--help` shows them."""
    from typer.main import get_command

    from gmb_hf.cli import build

    lines = [
        "# Commands",
        "",
        "Every command of `gmb`, made from its `--help`. A command prints what it wrote and the "
        "next command to type. [What its exit codes mean](running.md#exit-codes).",
        "",
        "| command | what it does |",
        "| :-- | :-- |",
    ]
    every = list(_commands(get_command(build()), "gmb"))
    for words, command in every:
        about = _cell((command.help or "").split("\n\n")[0])
        lines.append(f"| [`{words}`](#{words.replace(' ', '-')}) | {about} |")
    for words, command in every:
        options = [one for one in command.params if not getattr(one, "hidden", False)]
        arguments = [one for one in options if one.param_type_name == "argument"]
        design = [one for one in options if getattr(one, "rich_help_panel", "") == "The design"]
        own = [one for one in options if one not in design]
        usage = " ".join([words, *map(_argument, arguments), "[OPTIONS]"])
        lines += ["", f"## {words}", "", _cell(command.help), "", f"`{usage}`", ""]
        if own:
            lines += ["| option | default | meaning |", "| :-- | :-- | :-- |", *map(_option, own)]
        if design:
            names = ", ".join(f"`{one.opts[0]}`" for one in design)
            lines += ["", f"[Fields of the design](design_fields.md): {names}."]
    return "\n".join(lines) + "\n"


def _commands(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Every command of a group and of the groups in it, with the words to type."""
    import typer

    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from _commands(one, f"{words} {name}")
        else:
            one.get_params(typer.Context(one, info_name=name))  # those of a design come last
            yield f"{words} {name}", one


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return f"{name}..." if parameter.nargs == -1 else name


def _option(parameter: Any) -> str:
    name = " ".join(f"`{text}`" for text in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        name = f"`{_argument(parameter)}`"
    default = parameter.default
    shown = "" if callable(default) or default in (None, (), [], False) else _shown(default)
    required = "required" if parameter.required else shown
    return f"| {name} | {required} | {_cell(getattr(parameter, 'help', None))} |"


GENERATED = {
    "changelog.md": changelog,
    "commands.md": commands,
    "design_fields.md": design_fields,
}


class Docstrings(griffe.Extension):
    """Makes of the docstrings of this package what the reader of Google's style takes."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _DOCTEST.sub(_as_example, obj.docstring.value)
            obj.docstring.value = _SEVERAL.sub(_one_by_one, text)


_DOCTEST = re.compile(r"^>>> .+(?:\n.+)*", re.MULTILINE)
_SEVERAL = re.compile(r"^    (\w+)((?:, \w+)+): (.+(?:\n {5,}.+)*)", re.MULTILINE)
"""An entry of several names, `low, high: ...`, with its further lines."""


def _as_example(doctest: re.Match[str]) -> str:
    return "\nExamples:\n" + "\n".join(f"    {line}" for line in doctest[0].splitlines())


def _one_by_one(entry: re.Match[str]) -> str:
    first, others, text = entry.groups()
    rest = (f"\n    {name}: see `{first}`." for name in others.split(", ")[1:])
    return f"    {first}: {text}" + "".join(rest)
