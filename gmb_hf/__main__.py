"""`python -m gmb_hf` is `gmb`, where the command is not on the path."""

import sys

from gmb_hf.cli import main

if __name__ == "__main__":
    sys.exit(main())
