"""What type checkers see of ``import hwdyno``, whose names are imported when they are first used."""

from hwdyno.api import *
from hwdyno.api import __all__ as __all__

__version__: str
