"""Train tasks one after the other: `python -m gmb_hf.jobs.trainers.sequential` of a checkout."""

import sys

from gmb_hf.jobs.trainers.sequential import main

if __name__ == "__main__":
    sys.exit(main())
