"""The presets, as `presets.yaml` has them, and the design that a config fixes.

| preset       | for                                                                          |
|--------------|------------------------------------------------------------------------------|
| smoke        | tests: seconds, nothing to conclude                                          |
| quick        | the whole story in minutes; most honest verdicts stay INCONCLUSIVE           |
| standard     | the same task with runs enough for conclusive verdicts                       |
| hierarchical | a recurrent model, a fast block in cycles of a slow one, as quick            |
| formal       | a formal language, learned soon: short runs and windows                      |
| icl          | in-context learning: examples in the prompt are copied by what they are      |
| paper        | p = 97, two layers, width 128, the evaluation protocol's hyperparameters     |
| reference    | as the reference project's published runs: noisy labels, little weight decay |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import choose
from gmb_hf.design.design import Design
from gmb_hf.design.power import draws_needed
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.config import RunConfig

PRESETS: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_name("presets.yaml"))
"""Name -> what the preset changes of its base, by section."""


def preset(name: str) -> RunConfig:
    """The config of that name; an unknown one is an `InputError` that names the nearest."""
    given = dict(PRESETS[choose("preset", name, tuple(PRESETS))])
    defaults = RunConfig()
    base = preset(given.pop("base")) if "base" in given else defaults
    sections = {
        key: getattr(defaults if key == "task" else base, key).replace(**fields)
        for key, fields in given.items()  # a task is given whole
    }
    return base.replace(preset=name, **sections)


def design_of(
    config: RunConfig, log: RunLog, fields: Mapping[str, Any] = MappingProxyType({})
) -> Design:
    """The design that a config fixes, with every indicator that the log can feed as candidate.

    Where the config asks for it and the explore runs can carry the fit, all of them that see no
    test label are two candidates more, combined by a regression and by trees. `log` are the
    explore runs, whose metadata name task, model and optimizer; `fields` of the design, by its
    names, are to be different.
    """
    from gmb_hf.benchmark.ensembles import combinations_of
    from gmb_hf.benchmark.prepare import available_candidates, boundary_of

    candidates, boundary = available_candidates(log), boundary_of(log)
    design = config.design_on(boundary=boundary, candidates=candidates, fields=fields)
    if config.benchmark.combination:
        candidates += combinations_of(design, log)
        design = config.design_on(boundary=boundary, candidates=candidates, fields=fields)
    # With all signals of the survey none could pass by the usual number of draws.
    least = draws_needed(len(candidates) * (1 + len(design.strata)), design.alpha_per_look)
    if least <= design.null_draws or "null_draws" in fields:
        return design
    return design.replace(null_draws=2 * least)
