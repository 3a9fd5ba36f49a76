"""Training: configs and presets, many seeds stacked into one exact step, and one model alone."""
