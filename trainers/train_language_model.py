"""Train a language model on text: `python -m gmb_hf.jobs.trainers.language` of a checkout."""

import sys

from gmb_hf.jobs.trainers.language import main

if __name__ == "__main__":
    sys.exit(main())
