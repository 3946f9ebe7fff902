"""Settings of all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell without job control starts its background jobs with SIGINT ignored, and the programs that tests interrupt
# would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a time, and examples are the same in every run.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")
