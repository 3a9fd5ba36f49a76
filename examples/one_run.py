"""Draw one run of a panel: its accuracy above, a score and its threshold below.

    python examples/one_run.py --out docs/images/one_run        # the figure of README
    python examples/one_run.py --score effective_rank --run 1007

The runs are the panel's explore runs, each judged by a threshold that the others give, so that no
look at its held-out runs is spent. Without `--run` it is the first one that is detected in time.
"""

from __future__ import annotations

import argparse

from gmb_hf import evaluate_runs, plot_run
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.report.style import save_figure


def main() -> None:
    """Judge one score on the explore runs of a panel, and draw a run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--panel", default="sub-29")
    parser.add_argument("--score", default="unembedding_gini")
    parser.add_argument("--run", help="its name or seed")
    parser.add_argument("--out", default="one_run", help="file of the figure, without a suffix")
    options = parser.parse_args()
    panel = FrozenPanel.find(options.panel)
    known = {one.name: one for one in panel.design().candidates}
    if options.score not in known:
        parser.error(f"--score {options.score}: {options.panel} has {', '.join(known)}")
    design = panel.design().replace(candidates=[known[options.score]], also_events=[])
    found = evaluate_runs(design, panel.read("explore"))
    print(found.results.indicator(options.score).x_sentence)
    print("wrote", *save_figure(plot_run(found, options.run), options.out, formats=("png",)))


if __name__ == "__main__":
    main()
