"""Train the seeds of a preset: `python -m gmb_hf.jobs.trainers.grokking` of a checkout."""

import sys

from gmb_hf.jobs.trainers.grokking import main

if __name__ == "__main__":
    sys.exit(main())
