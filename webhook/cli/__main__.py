"""`python -m webhook.cli` is `podfit`."""

import sys

from webhook.cli import main

sys.exit(main())
