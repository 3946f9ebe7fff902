"""The errors of a call that are not the caller's, and the way that all others become one family."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hwdyno.model.errors import HwdynoError
from hwdyno.model.words import UserError
from hwdyno.system.failures import is_bug


class MeasurementError(HwdynoError):
    """The machine refused something that the work needs, such as memory, a file or a device."""


class StoppedError(HwdynoError):
    """The work was cancelled before anything could be measured."""


@contextlib.contextmanager
def one_family() -> Iterator[None]:
    """Raise what the user or the machine is the reason of as ``HwdynoError``; a bug of hwdyno's passes as it is."""
    try:
        yield
    except HwdynoError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise MeasurementError(f"{where}{error.strerror or error}") from error
    except Exception as error:
        if is_bug(error):
            raise
        raise UserError(str(error)) from error
