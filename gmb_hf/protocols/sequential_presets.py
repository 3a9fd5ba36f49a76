"""The presets of the sequential protocol, each for either suite.

| preset      | for                                                                          |
|-------------|------------------------------------------------------------------------------|
| replication | the evaluation protocol: p = 97, 2 x 4 x 128, 50,000 steps a phase           |
| quick       | both suites in minutes on two cores; a smaller prime and a smaller model     |
"""

from __future__ import annotations

from collections.abc import Callable

from gmb_hf.protocols.sequential_settings import PhaseSettings, SequentialConfig
from gmb_hf.protocols.suites import FORMAL, MODULAR, SUITES, SuiteSettings
from gmb_hf.training.presets import paper
from gmb_hf.training.settings import ModelSettings, TrainingSettings
from gmb_hf.validation import choose


def replication(suite: str) -> SequentialConfig:
    """Model, numbers and steps of the evaluation protocol, and the published shared token.

    The protocol's table gives every operation a token of its own: `op_token="distinct"`.
    """
    settings = SuiteSettings(name=suite, op_token="shared" if suite == MODULAR else None)
    base = paper()
    return SequentialConfig(
        preset="replication", suite=settings, model=base.model, training=base.training
    )


def quick(suite: str) -> SequentialConfig:
    """Half of each task's rows are trained on, as in the protocol; all else is smaller.

    A seed's phase ends when it has learned its task, so that what is forgotten is compared at equal
    learning. Phases would otherwise be as long as the slowest seed needs. A small learning rate
    with much decay groks soon, and without the loss spikes of larger ones.
    """
    if suite == FORMAL:
        return SequentialConfig(
            preset="quick",
            suite=SuiteSettings(name=suite),
            model=ModelSettings(layers=2, heads=4, width=32, mlp_width=128),
            training=TrainingSettings(
                checkpoint_every=25, lr=3e-3, weight_decay=0.5, seeds_at_once=4
            ),
            # Parity is memorised, not learned, within any such number.
            phases=PhaseSettings(steps=(300, 1000, 600, 300), stop_loss=0.05),
        )
    return SequentialConfig(
        preset="quick",
        suite=SuiteSettings(name=suite, prime=31),
        model=ModelSettings(layers=1, heads=4, width=64, mlp_width=128),
        training=TrainingSettings(
            steps=6000, checkpoint_every=50, lr=2e-3, weight_decay=1.5, seeds_at_once=4
        ),
        phases=PhaseSettings(stop_loss=0.1),
    )


PRESETS: dict[str, Callable[[str], SequentialConfig]] = {
    function.__name__: function for function in (replication, quick)
}


def preset(name: str, suite: str) -> SequentialConfig:
    """The config of that name for a suite.

    Raises:
        InputError: the name or the suite is unknown; the nearest is named.
    """
    choose("suite", suite, tuple(SUITES))
    return PRESETS[choose("preset", name, tuple(PRESETS))](suite)


def smaller_than_protocol(config: SequentialConfig) -> str:
    """What of a config's task and model is not of the protocol's size, in words; empty if nothing.

    It stands beside the numbers, so that nobody takes them for a replication.
    """
    published = replication(config.suite.name)
    parts = []
    if config.suite.prime != published.suite.prime:
        parts.append(f"p = {config.suite.prime} (protocol: {published.suite.prime})")
    if config.model.name != published.model.name:
        parts.append(f"{config.model.name} (protocol: {published.model.name})")
    return ", ".join(parts)
