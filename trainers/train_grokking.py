"""Train the seeds of a preset: `python -m gmb_hf.trainers.grokking` of a checkout."""

import sys

from gmb_hf.trainers.grokking import main

if __name__ == "__main__":
    sys.exit(main())
