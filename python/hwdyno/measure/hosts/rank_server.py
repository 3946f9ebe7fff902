"""One rank's server of network measurements as a separate process, beside the one that measures."""

from __future__ import annotations

import sys
import threading

from hwdyno.measure import engine
from hwdyno.measure.hosts.rank_process import end_with


def main(address: str, port: str, life: str) -> None:
    """Serve tests of the other ranks at this address, until the pipe ``life`` ends: its rank's."""
    threading.Thread(target=end_with, args=(int(life),), daemon=True).start()
    engine.run("network_server", {"bind": address, "port": int(port), "parallel_clients": True})


if __name__ == "__main__":
    main(*sys.argv[1:4])
