"""The reference's settings, its published values as defaults."""

from __future__ import annotations

import dataclasses
import math

from gmb_hf.validation import InputError, fraction, positive_int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompatSettings:
    """What the reference's evaluation depends on; the names are the reference's.

    Attributes:
        metric: the observable that carries the event.
        w_jump: checkpoints of the trailing mean of the metric, and over which it must rise.
        delta_jump: least rise of the smoothed metric.
        theta_floor: level that the smoothed metric must reach.
        delta_back: how far it may fall back within `hold_k` checkpoints, the present one included.
        hold_k: see `delta_back`.
        horizon: steps up to t* in which a window is positive.
        smoothing: checkpoints of a trailing mean over the score. 1, since a published score is
            smoothed (over 10 checkpoints) where it is made, not where it is judged.
        fpr_targets: target false positive rates; empty where thresholds are given without targets.
        thresholds: thresholds from outside, one per target where there are targets; None to
            search.
        fpr_eps, fpr_floor_max, min_targets_ok, event_count_min, lead_time_target: the
            specification's defaults; the label and `lead_time_success` depend on them.

    Raises:
        InputError: a setting is out of range.
    """

    metric: str = "test_acc"
    w_jump: int = 2
    delta_jump: float = 0.04
    theta_floor: float = 0.85
    delta_back: float = 0.03
    hold_k: int = 5
    horizon: int = 20_000
    smoothing: int = 1
    fpr_targets: tuple[float, ...] = (0.01, 0.05, 0.10)
    thresholds: tuple[float, ...] | None = None
    fpr_eps: float = 0.01
    fpr_floor_max: float = 0.20
    min_targets_ok: int = 2
    event_count_min: int = 30
    lead_time_target: int = 200

    def __post_init__(self) -> None:
        for name in ("w_jump", "horizon", "smoothing", "lead_time_target"):
            positive_int(name, getattr(self, name))
        if positive_int("hold_k", self.hold_k) < 2:
            raise InputError(
                "hold_k must be at least 2: the level must hold for a later checkpoint, got 1"
            )
        for name in ("delta_jump", "theta_floor", "delta_back"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number, got {getattr(self, name)}")
        if self.delta_back < 0:
            raise InputError(f"delta_back must not be negative, got {self.delta_back:g}")
        for target in self.fpr_targets:
            fraction("fpr_targets", target)
        if len(set(self.fpr_targets)) < len(self.fpr_targets):
            raise InputError("fpr_targets names a rate twice; name each once")
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        if self.thresholds is None:
            if not self.fpr_targets:
                raise InputError("fpr_targets is empty; name at least one rate, or thresholds")
            return
        if not self.thresholds:
            raise InputError("thresholds is empty; name at least one, or leave it out")
        for threshold in self.thresholds:
            if not math.isfinite(threshold):
                raise InputError(f"thresholds must be finite numbers, got {threshold}")
        given, wanted = len(self.thresholds), len(self.fpr_targets)
        if wanted and given != wanted:
            raise InputError(
                f"thresholds names {given} and fpr_targets {wanted}; give one threshold for each "
                "target, or leave fpr_targets out"
            )

    @property
    def least_rows(self) -> int:
        """The fewest rows of a run in which an event can be found and the score be smoothed."""
        return max(self.w_jump + 2, self.smoothing)

    def plain(self) -> dict[str, object]:
        """The settings as a results file holds them."""
        held = dataclasses.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in held.items()}


def explain_settings(settings: CompatSettings) -> tuple[str, ...]:
    """What was computed, a sentence for each choice."""
    event = (
        f"Event: the first checkpoint at which the mean of {settings.metric} over "
        f"{settings.w_jump} checkpoints has risen by {settings.delta_jump:g} in {settings.w_jump} "
        f"checkpoints, is at least {settings.theta_floor:g}, and falls back by no more than "
        f"{settings.delta_back:g} within {settings.hold_k} checkpoints."
    )
    labels = (
        f"A window is positive in the {settings.horizon:,} steps up to t*, t* included; every "
        "other window is negative, also after the event."
    )
    protocol = "Protocol: compat, the reference implementation's own computation."
    if settings.smoothing == 1:
        return protocol, event, labels
    return protocol, event, labels, f"Score: its mean over {settings.smoothing} checkpoints."
