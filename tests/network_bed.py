"""Two network namespaces as two hosts, with a path between them that is shaped or loses."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from here import missing
from network_programs import ENV, HWDYNO, running, wait_for


def bed_is_here() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    made = subprocess.run(["ip", "netns", "add", "hwdyno-probe"], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", "hwdyno-probe"], capture_output=True, check=False)
    return made


class TwoHosts:
    def __init__(self) -> None:
        self.tag = f"hwd{os.getpid() % 10000}"
        self.here, self.there = f"{self.tag}a", f"{self.tag}b"

    def inside(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", name)

    def do(self, command: str, *, check: bool = True) -> bool:
        return subprocess.run(command.split(), check=check, capture_output=not check).returncode == 0

    def build(self) -> None:
        for name in (self.here, self.there):
            self.do(f"ip netns add {name}")
        self.do(f"ip link add {self.tag}x netns {self.here} type veth peer name {self.tag}y netns {self.there}")
        for name, link, address in ((self.here, "x", "10.99.0.1"), (self.there, "y", "10.99.0.2")):
            self.do(f"ip -n {name} addr add {address}/24 dev {self.tag}{link}")
            self.do(f"ip -n {name} link set {self.tag}{link} up")
            self.do(f"ip -n {name} link set lo up")

    def close(self) -> None:
        for name in (self.here, self.there):
            self.do(f"ip netns del {name}", check=False)

    def shape(self, rate: str, limit: str = "1mb") -> None:
        self.do(f"tc -n {self.here} qdisc replace dev {self.tag}x root tbf rate {rate} burst 64kb limit {limit}")

    def drop(self, rule: str) -> None:
        """Let the far host drop what it is sent, by a rule of nftables."""
        if not shutil.which("nft"):
            missing("needs nft (nftables)")
        table = f"table inet t {{\nchain c {{\ntype filter hook input priority 0\n{rule}\n}}\n}}\n"
        subprocess.run([*self.inside(self.there), "nft", "-f", "-"], input=table, text=True, check=True)

    def wait_for_streams(self) -> None:
        """Wait until a client has its control connection and a stream, and some of it was sent."""
        wait_for(5201, *self.inside(self.there), state="01", least=2)
        time.sleep(0.5)

    @contextlib.contextmanager
    def server(self) -> Iterator[subprocess.Popen[str]]:
        command = (*HWDYNO, "network", "server", "--bind", "10.99.0.2", "--port", "5201", "--parallel-clients")
        with running(*command, port=5201, inside=self.inside(self.there)) as process:
            yield process

    def measure(self, kernel: str = "network_throughput", **parameters: Any) -> dict[str, Any]:
        given = json.dumps({"server": "10.99.0.2", "runtime": 1.0, **parameters})
        code = (
            "import json; from hwdyno.measure import engine; "
            f"print(json.dumps(engine.run({kernel!r}, json.loads({given!r}))))"
        )
        done = subprocess.run(
            [*self.inside(self.here), sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=ENV,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def two_hosts() -> Iterator[TwoHosts]:
    if not bed_is_here():
        missing("needs root and network namespaces")
    hosts = TwoHosts()
    try:
        hosts.build()
        yield hosts
    finally:
        hosts.close()
