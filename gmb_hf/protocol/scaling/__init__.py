"""Scaling laws: a source of known entropy, a grid of trainings, fits, and what is written."""
