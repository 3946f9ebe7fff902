"""Lets ``python -m hwdyno`` stand for ``hwdyno``."""

import sys

from hwdyno.cli.main import main

sys.exit(main())
