from hwdyno.api import Curve as Curve
from hwdyno.api import Run as Run
from hwdyno.api import UserError as UserError
from hwdyno.api import compute as compute
from hwdyno.api import load as load
from hwdyno.api import memory as memory
from hwdyno.api import network as network
from hwdyno.api import run as run
from hwdyno.api import storage as storage
from hwdyno.api import study as study
from hwdyno.api import together as together
from hwdyno.api import training as training

__version__: str
API: tuple[str, ...]
