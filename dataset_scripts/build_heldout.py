"""Build held-out text as a dataset, streamed: Parquet and a card.

    python dataset_scripts/build_heldout.py --out out/gmb-heldout --text tinystories=stories.txt

The same as `gmb data build heldout`, whose options it takes.
"""

from __future__ import annotations

import sys

from gmb_hf.cli import main

if __name__ == "__main__":
    sys.exit(main(["data", "build", "heldout", *sys.argv[1:]]))
