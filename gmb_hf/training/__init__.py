"""Training: configs and presets, many seeds stacked into one exact step, and one model alone."""

import os

# Threads that wait for the next step give their cores away. Beside other work on the machine, two
# threads that spin take four times as long (12.7 ms a seed and step, 3.2 ms with passive waiting).
# OpenMP reads it when torch loads it, so it stands before every import of torch; a value that is
# set already stays.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
