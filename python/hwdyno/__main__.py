"""Runs ``hwdyno`` as ``python -m hwdyno``."""

import sys

from hwdyno.cli.main import main

sys.exit(main())
