"""`python -m podfit.cli` is `podfit`."""

import sys

from podfit.cli import main

sys.exit(main())
