"""Causal functions of a run's observables to a score s(t); higher means higher risk."""
