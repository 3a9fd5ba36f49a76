"""GMB-HF: may an early-warning score of a training run be trusted as an alarm?

>>> import gmb_hf
>>> log = gmb_hf.RunLog.read("runs/quick/logs")  # doctest: +SKIP
>>> results = gmb_hf.Results.read("runs/quick/results.yaml")  # doctest: +SKIP

Names are loaded when they are first used, so importing the package costs almost nothing.
"""

from gmb_hf._lazy import lazy_names
from gmb_hf._version import __version__ as __version__

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
