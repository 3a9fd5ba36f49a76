"""The GMB layers once more, slowly and without numpy: what the metrics must return under v0.4."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction


class Oracle:
    """Windows of runs logged at steps 0, 1, 2, ..., and what follows from them."""

    def __init__(
        self,
        predictions: list[list[float]],
        references: list[float | None],
        *,
        horizon: int,
        safe_gap: int,
        burn_in: int = 0,
        w_event: int = 50,
    ) -> None:
        self.events = references
        self.positive: list[list[tuple[int, float]]] = []
        self.negative: list[list[float]] = []
        for series, event in zip(predictions, references, strict=True):
            rows = [(t, s) for t, s in enumerate(series) if t >= burn_in]
            if event is None:
                until = len(series) - 1 - w_event - safe_gap
                self.positive.append([])
            else:
                until = event - safe_gap
                self.positive.append([(t, s) for t, s in rows if 0 < event - t <= horizon])
            self.negative.append([s for t, s in rows if t <= until])
        self.quiet = [s for row in self.negative for s in row]
        self.risky = [s for row in self.positive for _, s in row]

    def auc(self) -> float | None:
        if not self.risky or not self.quiet:
            return None
        wins = sum((p > n) + (p == n) / 2 for p in self.risky for n in self.quiet)
        return wins / (len(self.risky) * len(self.quiet))

    def ap(self) -> float | None:
        if not self.risky or not self.quiet:
            return None
        total, recall_before = 0.0, 0.0
        for tau in sorted({*self.risky, *self.quiet}, reverse=True):
            true = sum(s >= tau for s in self.risky)
            false = sum(s >= tau for s in self.quiet)
            recall = true / len(self.risky)
            total += (recall - recall_before) * true / (true + false)
            recall_before = recall
        return total

    def rate(self, tau: float) -> Fraction:
        return Fraction(sum(s >= tau for s in self.quiet), len(self.quiet))

    def threshold(self, target: float) -> float:
        wanted = Fraction(str(target))
        candidates = [*set(self.quiet), math.inf]
        return min(candidates, key=lambda tau: (abs(self.rate(tau) - wanted), self.rate(tau)))

    def met(self, target: float, eps: float = 0.01) -> bool:
        rate = self.rate(self.threshold(target))
        return abs(rate - Fraction(str(target))) <= Fraction(str(eps))

    def fpr_min(self, targets: list[float]) -> float:
        in_use = [tau for tau in map(self.threshold, targets) if tau < math.inf]
        if in_use:  # each is a quiet window's score, so that it alarms
            return float(min(map(self.rate, in_use)))
        rates = [self.rate(tau) for tau in set(self.quiet)]
        if max(self.risky, default=-math.inf) > max(self.quiet):
            rates.append(Fraction(0))  # of a threshold above every negative
        nearest = [min(rates, key=lambda r: (abs(r - Fraction(str(f))), r)) for f in targets]
        return float(min(nearest))

    def leads(self, tau: float) -> list[float | None]:
        """Of each run: t* - (first alarm in the horizon); None where there is none."""
        found: list[float | None] = []
        for row, event in zip(self.positive, self.events, strict=True):
            alarms = [t for t, s in row if s >= tau]
            found.append(event - alarms[0] if alarms and event is not None else None)
        return found

    def utility(self, tau: float, lead_target: float) -> dict[str, float | None]:
        events = sum(event is not None for event in self.events)
        leads = sorted(lead for lead in self.leads(tau) if lead is not None)
        return {
            "coverage": len(leads) / events if events else None,
            "lead_time_median": statistics.median(leads) if leads else None,
            "lead_time_iqr": quantile(leads, 3) - quantile(leads, 1) if leads else None,
            "lead_time_q05": quantile(leads, 0.2) if leads else None,
            "lead_time_q95": quantile(leads, 3.8) if leads else None,
            "lead_time_success": (
                sum(lead >= lead_target for lead in leads) / events if events else None
            ),
        }


def quantile(values: list[float], quarter: float) -> float:
    """The linear quantile of sorted values, at so many quarters."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=20, method="inclusive")[round(5 * quarter) - 1]
