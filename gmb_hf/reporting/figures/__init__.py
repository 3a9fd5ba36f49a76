"""Figures for a paper: plain arrays in, a matplotlib `Figure` out, `save_figure` writes it."""
