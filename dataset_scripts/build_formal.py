"""Build formal languages over bits as a dataset: Parquet and a card.

    python dataset_scripts/build_formal.py --out out/gmb-formal

The same as `gmb data build formal`, whose options it takes.
"""

from __future__ import annotations

import sys

from gmb_hf.cli import main

if __name__ == "__main__":
    sys.exit(main(["data", "build", "formal", *sys.argv[1:]]))
