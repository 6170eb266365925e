"""Lets `python -m seqsmooth` do what `seqsmooth` does."""

import sys

from seqsmooth.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
