"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# No test asserts a timing, and none may pass today and fail tomorrow.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")
