"""The method on arrays: from scores to windows, thresholds, alarms and chance baselines.

Pure functions on numpy arrays. Everything above, from the `evaluate` modules to the monitor, calls
them; whoever reads this package has read the method.
"""

from __future__ import annotations

from gmb_hf.core.events import jump_steps as jump_steps
from gmb_hf.core.events import plateau_steps as plateau_steps
from gmb_hf.core.first_alarm import FirstAlarms as FirstAlarms
from gmb_hf.core.first_alarm import first_alarms as first_alarms
from gmb_hf.core.nulls import NULLS as NULLS
from gmb_hf.core.nulls import register_null as register_null
from gmb_hf.core.ranking import ranking as ranking
from gmb_hf.core.thresholds import Negatives as Negatives
from gmb_hf.core.thresholds import conformal_threshold as conformal_threshold
from gmb_hf.core.thresholds import promise as promise
from gmb_hf.core.thresholds import run_maxima as run_maxima
from gmb_hf.core.thresholds import run_threshold as run_threshold
from gmb_hf.core.thresholds import spec_threshold as spec_threshold
from gmb_hf.core.utility import WindowAlarms as WindowAlarms
from gmb_hf.core.utility import window_alarms as window_alarms
from gmb_hf.core.windows import Windows as Windows
from gmb_hf.core.windows import label_windows as label_windows
