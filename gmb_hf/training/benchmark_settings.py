"""The section of a config that says how its runs are to be judged."""

from __future__ import annotations

from dataclasses import dataclass

from gmb_hf.validation import InputError, choose, fraction, not_negative, positive_int

EVENTS = ("E_jump", "E_plateau", "E_regime")
_NEEDED_BY: dict[str, tuple[str, ...]] = {
    "E_jump": (),
    "E_plateau": ("plateau_checkpoints", "plateau_threshold"),
    "E_regime": ("regime_radius",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """The design of the evaluation, in training steps; it becomes the preregistration.

    Attributes:
        event: "E_jump", "E_plateau" or "E_regime".
        jump_window, jump_threshold: E_jump: test accuracy rises by the threshold in the window.
        event_floor: the accuracy that the jump must reach; None asks for none.
        event_new_max: the jump must exceed all before it: regaining a level is no event.
        plateau_checkpoints, plateau_threshold: E_plateau: so many checkpoints hold this accuracy.
        plateau_regression: so many of them in a row may lie below it; None allows none.
        regime_radius: E_regime: signals so many steps from t move together.
        regime_quantile, regime_tolerance: of PT-MSS; None takes the published ones.
        horizon: an alarm this long before the event is a warning.
        safe_gap: windows nearer to the event than this are no negatives.
        burn_in: windows before this step are ignored.
        lead_time_target: a warning this early counts as a success.
        lead_time_median_min: the median lead that a supported score must reach.
        primary_fpr: the false alarm budget that the verdict is judged at.
        coverage_min: the share of events that a supported score must warn of.
        window_sweep: values of an indicator's own window that robustness is judged over.
        combination: judge one score more, a logistic combination of all that see no test label.
    """

    event: str = "E_jump"
    jump_window: int = 100
    jump_threshold: float = 0.2
    event_floor: float | None = None
    event_new_max: bool = False
    plateau_checkpoints: int | None = None
    plateau_threshold: float | None = None
    plateau_regression: int | None = None
    regime_radius: int | None = None
    regime_quantile: float | None = None
    regime_tolerance: int | None = None
    horizon: int = 200
    safe_gap: int = 400
    burn_in: int = 200
    lead_time_target: int = 50
    lead_time_median_min: int = 50
    primary_fpr: float = 0.05
    coverage_min: float = 0.3
    window_sweep: tuple[int, ...] = (80, 100, 120)
    combination: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "window_sweep", tuple(self.window_sweep))  # YAML reads a list
        for window in self.window_sweep:
            positive_int("benchmark.window_sweep", window)
        for name in ("jump_window", "horizon", "safe_gap"):
            positive_int(f"benchmark.{name}", getattr(self, name))
        if self.horizon >= self.safe_gap:
            raise InputError(
                f"benchmark.horizon={self.horizon} must be less than "
                f"benchmark.safe_gap={self.safe_gap}; else a window is positive and negative"
            )
        for name in ("burn_in", "lead_time_target", "lead_time_median_min"):
            not_negative(f"benchmark.{name}", getattr(self, name))
        for name in ("jump_threshold", "primary_fpr"):
            fraction(f"benchmark.{name}", getattr(self, name))
        fraction("benchmark.coverage_min", self.coverage_min, closed=True)
        if self.event_floor is not None:
            fraction("benchmark.event_floor", self.event_floor, closed=True)
        self._check_event()

    def _check_event(self) -> None:
        choose("event", self.event, EVENTS, where="benchmark.event")
        for name in _NEEDED_BY[self.event]:
            if getattr(self, name) is None:
                raise InputError(f"benchmark.event={self.event} needs benchmark.{name}")
        for name in ("plateau_checkpoints", "regime_radius"):
            if getattr(self, name) is not None:
                positive_int(f"benchmark.{name}", getattr(self, name))
        for name in ("plateau_threshold", "plateau_regression", "regime_tolerance"):
            if getattr(self, name) is not None:
                not_negative(f"benchmark.{name}", getattr(self, name))
        if self.regime_quantile is not None:
            fraction("benchmark.regime_quantile", self.regime_quantile)
