"""The `evaluate` modules of this package: load one, or make all of them loadable by name.

    import gmb_hf.jobs.metrics
    metric = gmb_hf.jobs.metrics.load("gmb_operationality")

needs no installing. After `install()` (or `gmb metrics install`) the plain call
`evaluate.load("gmb_operationality")` finds the modules from any folder, without the Hub.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gmb_hf.base.errors import InputError, unknown
from gmb_hf.base.files import shipped

Columns = tuple[tuple[str, str], ...]
_KINDS = {"Metric": "metric", "Comparison": "comparison", "Measurement": "measurement"}


@dataclass(frozen=True)
class Module:
    """One module: a folder that is a Space of the Hub, and the script of its name in it.

    Its kind is metric, comparison or measurement, the summary the first sentence of the script.
    """

    name: str
    kind: str
    summary: str
    folder: Path

    @property
    def script(self) -> Path:
        """The file that `evaluate` loads."""
        return self.folder / f"{self.name}.py"


def folder() -> Path:
    """Where the modules lie: inside an installed package, or beside it in a checkout.

    Raises:
        InputError: neither place has them.
    """
    return shipped("metric_modules", "metrics", holding="gmb_operationality/gmb_operationality.py")


def names() -> tuple[str, ...]:
    """The names of all modules, sorted."""
    found = (path for path in folder().iterdir() if (path / f"{path.name}.py").is_file())
    return tuple(sorted(path.name for path in found))


def module(name: str) -> Module:
    """What is known of one module without loading it.

    Raises:
        InputError: there is no such module; the nearest name is given.
    """
    if name not in names():
        raise unknown("metric", name, names())
    place = folder() / name
    tree = ast.parse((place / f"{name}.py").read_text(encoding="utf-8"))
    used = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    kind = next(_KINDS[word] for word in used if word in _KINDS)
    summary = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
    return Module(name, kind, summary, place)


def load(name: str, **init: Any) -> Any:
    """Load a module, an `evaluate.EvaluationModule`, from this package itself.

    `init` is passed on to `evaluate.load`, e.g. `experiment_id` in distributed settings.

    Raises:
        InputError: there is no such module; the nearest name is given.
    """
    import evaluate

    return evaluate.load(str(module(name).script), **init)


def install() -> tuple[Path, ...]:
    """Put every module where `evaluate.load(name)` looks last, its cache; the scripts there.

    An older copy is replaced. The place is below HF_MODULES_CACHE, `~/.cache/huggingface/modules`
    unless it is set.
    """
    from datasets import DownloadMode
    from evaluate.loading import _create_importable_file, init_dynamic_modules

    root = Path(init_dynamic_modules())
    written = []
    for name in names():
        one = module(name)
        # `evaluate` has no registry to enter; this is what it does itself after a download. Without
        # FORCE_REDOWNLOAD an older copy could win by its time stamp.
        place = (str(root), "metrics", f"evaluate-{one.kind}/{name}")
        anew = DownloadMode.FORCE_REDOWNLOAD
        path, _ = _create_importable_file(str(one.script), [], [], *place, anew)
        written.append(root.parent.joinpath(*path.split(".")).with_suffix(".py"))
    return tuple(written)


class StatisticModule:
    """Mixin of the modules: one function of this package as an `EvaluationModule`.

    `compute` of data at hand leaves Arrow out: writing a million scores to an Arrow file and
    reading them back takes longer than most metrics and changes nothing. Data from `add` or
    `add_batch`, and several processes, go the usual way.

    A class that is no `EvaluationModule`, since `evaluate` takes the first one that it meets in a
    script for the script's own.

    Attributes:
        about, inputs, source: what the module's description, inputs and citation say.
        columns: names of the data, each with its form, "series", "number" or "text".
        statistic: called with the data and the settings by name.
    """

    about: ClassVar[str]
    inputs: ClassVar[str]
    source: ClassVar[str]
    columns: ClassVar[Columns] = (("predictions", "series"), ("references", "number"))
    statistic: ClassVar[Callable[..., dict[str, Any]]]
    name: str
    writer: Any
    num_process: int

    def _info(self) -> Any:
        import datasets
        import evaluate

        number = datasets.Value("float64")
        text = datasets.Value("string")
        forms = {"series": datasets.List(number), "number": number, "text": text}
        kind = next(kind for kind in _KINDS if isinstance(self, getattr(evaluate, kind)))
        return getattr(evaluate, f"{kind}Info")(
            description=self.about,
            citation=self.source,
            inputs_description=self.inputs,
            features=datasets.Features({name: forms[form] for name, form in self.columns}),
        )

    def add(self, **example: Any) -> None:
        """Store one item, `prediction=` and `reference=`, or the data under their own names."""
        self._refuse_text({name: [value] for name, value in example.items()})
        super().add(**example)  # type: ignore[misc]

    def add_batch(self, **batch: Any) -> None:
        """Store items, `predictions=` and `references=`, or the data under their own names."""
        self._refuse_text(batch)
        super().add_batch(**batch)  # type: ignore[misc]

    def _refuse_text(self, batch: dict[str, Any]) -> None:
        # Arrow reads "0.9" as a number; `compute` of data at hand refuses it, so this does too.
        numbers = {name.removesuffix("s") for name, form in self.columns if form != "text"}
        for name, values in batch.items():
            if name.removesuffix("s") not in numbers:
                continue
            for place, value in enumerate(() if values is None else values):
                if np.asarray(value).dtype.kind in "US":
                    raise InputError(
                        f"{self.name}: {name}, item {place} holds text; give numbers, without "
                        "quotes around them"
                    )

    def _compute(self, **arguments: Any) -> dict[str, Any]:
        return type(self).statistic(**arguments)

    def check(self, settings: dict[str, Any]) -> None:
        """Refuse settings before stored data are read, which would be lost; raises InputError."""

    def compute(
        self, *unnamed: Any, predictions: Any = None, references: Any = None, **settings: Any
    ) -> dict[str, Any] | None:
        """Compute the metric, of the data given here and of what was added before."""
        given = {"predictions": predictions, "references": references, **settings}
        names: list[str] = self._feature_names()  # type: ignore[attr-defined]
        if unnamed:
            call = ", ".join(f"{name}=..." for name in names)
            raise InputError(f"{self.name}: data are given by name. Right call: compute({call})")
        data = {name: given.get(name) for name in names}
        others = {name: value for name, value in settings.items() if name not in names}
        for name in ("predictions", "references"):
            if name not in names and given[name] is not None:
                raise InputError(f"{name} is no data of this module; it takes {', '.join(names)}")
        if self.writer is None and self.num_process == 1:
            return self._compute(**data, **others)
        self.check(others)
        stored: dict[str, Any] | None = super().compute(  # type: ignore[misc]
            **{name: value for name, value in data.items() if value is not None}, **others
        )
        return stored


class GmbModule(StatisticModule):
    """A layer of GMB: score series and event steps to flat scalars.

    `statistic` is of `gmb_hf.benchmark.series`.
    """

    source = """
@misc{huang2026gmb,
    title = {{GMB} v0.4: Grokking Monitorability Benchmark},
    author = {Huang, Qien},
    year = {2026},
    url = {https://github.com/qienhuang/F-I-T}
}
"""

    def check(self, settings: dict[str, Any]) -> None:
        """Refuse what `read_settings` refuses."""
        from gmb_hf.benchmark.series import check_settings

        check_settings(f"gmb_{type(self).statistic.__name__}", settings)


class CrucibleModule(StatisticModule):
    """A statistic of Crucible; `statistic` is of `gmb_hf.crucible.calls`."""

    source = """
@misc{crucible_metrics,
    title = {Crucible Metrics Reference},
    author = {{The Crucible authors}},
    year = {2026}
}
"""

    def check(self, settings: dict[str, Any]) -> None:
        """Refuse keywords that the statistic does not have."""
        from gmb_hf.crucible.calls import check

        check(f"crucible_{type(self).statistic.__name__}", settings)
