"""A model's file that llama.cpp serves on loopback for as long as it is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.measure.models.gguf import MAGIC
from hwdyno.measure.scenarios import serving
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.preparation import Preparation, Says
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.serving import llama
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host


def make(request: Request, host: Host) -> Scenario:
    """The experiment against llama.cpp's server, which is started for a file and ended afterwards."""
    model = Path(str(request.options["serve"])).absolute()
    if not model.is_file():
        raise UserError(f"--serve {model} is no file; name a model in the GGUF format")
    with model.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise UserError(
                f"--serve {model} is no GGUF file; llama.cpp's convert_hf_to_gguf.py makes one of other formats"
            )
    slots, threads, context = (int(request.options[name]) for name in ("slots", "server_threads", "context"))
    if not (0 < slots <= 1024 and 0 <= threads <= 1024 and 0 < context <= 1 << 24):
        raise UserError("--slots and --server-threads are at most 1024, --context at most 16777216, each above 0")
    llama.check()
    started = llama.Started(model, slots, threads, context)
    served = ServerOfFile(where=model, description=f"llama.cpp: serves {model.name} at {started.url}", started=started)
    return replace(serving.of_url(request, host, started.url), preparations=(served,))


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerOfFile(Preparation):
    """llama.cpp's server in a separate process."""

    started: llama.Started

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The server answers inside of the context, and is gone after. Raises ``UserError`` where it does not start."""
        says(self.description)
        with self.started.running():
            yield True


KIND = Kind(
    name="serving_file",
    command="inference",
    make=make,
    title="serving a file",
    options=(
        Option("--serve", "serve this GGUF file by llama.cpp on loopback, and drive that server", "FILE"),
        Option("--slots", "requests that it answers at once [4]", "N", kind=int, default=4),
        Option("--server-threads", "its threads [0: half of the processors]", "N", kind=int, default=0),
        Option("--context", "tokens of context in each slot [1024]", "N", kind=int, default=1024),
    ),
    chosen_by="serve",
)
