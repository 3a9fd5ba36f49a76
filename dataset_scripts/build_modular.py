"""Build modular arithmetic as a dataset: Parquet and a card.

    python dataset_scripts/build_modular.py --out out/gmb-modular

The same as `gmb data build modular`, whose options it takes.
"""

from __future__ import annotations

import sys

from gmb_hf.cli import main

if __name__ == "__main__":
    sys.exit(main(["data", "build", "modular", *sys.argv[1:]]))
