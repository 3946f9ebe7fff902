"""What all tests share."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell without job control starts its background jobs with SIGINT ignored, and the programs that tests interrupt
# would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a timing, and none may pass today and fail tomorrow.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")
