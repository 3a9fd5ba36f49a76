"""How often each item of a pool will be seen in a training, and whether that suffices.

Expected exposures of Crucible, to detect dilution before training.
"""

import evaluate

from gmb_hf.crucible.calls import exposure
from gmb_hf.jobs.metrics import CrucibleModule

_DESCRIPTION = """
steps x batch size x probability x ratio / size is what an item of a pool can expect. Below 50
exposures a pool is in danger of dilution, below 30 critically, below 10 severely.
"""

_INPUTS = """
Args:
    data: names of the pools, such as legacy and organic.
    sizes: how many items each holds; an empty one gives its draws to the others.
    ratios: share of the draws that goes to each; they add up to 1.
    steps, batch_size: of the training; required.
    probability: that a slot of a batch is filled from these pools; required.

Returns:
    expected@NAME: expected exposures of each item of the pool; None where it is empty.
    status@NAME: healthy from 50 exposures, warning from 30, critical from 10, else severe.
    draws@NAME: expected draws from the pool.
    low@NAME, high@NAME: 5% and 95% quantile of an item's exposures, which are Poisson.
    status: the worst of the pools.

Examples:
    >>> import evaluate
    >>> measurement = evaluate.load("crucible_exposure")
    >>> found = measurement.compute(data=["legacy", "organic"], sizes=[454, 1200],
    ...     ratios=[0.75, 0.25], steps=10_000, batch_size=32, probability=0.1)
    >>> found["draws@legacy"], round(found["expected@legacy"], 1), found["status@legacy"]
    (24000.0, 52.9, 'healthy')

    The other pool is diluted:

    >>> round(found["expected@organic"], 1), found["status@organic"], found["status"]
    (6.7, 'severe', 'severe')
"""


class CrucibleExposure(CrucibleModule, evaluate.Measurement):
    about = _DESCRIPTION
    inputs = _INPUTS
    columns = (("data", "text"), ("sizes", "number"), ("ratios", "number"))
    statistic = staticmethod(exposure)
