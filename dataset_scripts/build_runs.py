"""Build run logs as a dataset, from which anybody may judge a score again: Parquet and a card.

    python dataset_scripts/build_runs.py --out out/gmb-runs --runs runs/quick/logs

The same as `gmb data build runs`, whose options it takes.
"""

from __future__ import annotations

import sys

from gmb_hf.cli import main

if __name__ == "__main__":
    sys.exit(main(["data", "build", "runs", *sys.argv[1:]]))
