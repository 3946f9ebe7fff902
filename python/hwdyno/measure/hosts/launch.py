"""Which of several ranks this process is, as its launcher says, and how all of them learn where rank 0 listens."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwdyno.model.words import UserError

RENDEZVOUS, SECRET, RANK, RANKS = "HWDYNO_RENDEZVOUS", "HWDYNO_SECRET", "HWDYNO_RANK", "HWDYNO_RANKS"
MAX_RANKS = 100_000
_BY_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""Open MPI; MPICH, Intel MPI and others behind Hydra or PMI2."""
_BY_ADDRESS = ((RANK, RANKS), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("JOB_COMPLETION_INDEX", RANKS), *_BY_MPI)
"""Where the address is known: what a step of Slurm and an Indexed Job of Kubernetes count ranks by."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where rank 0 listens, and the secret by which ranks know each other."""

    address: str
    port: int
    secret: bytes


class Launch(ABC):
    """A start of several processes of one command line."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @property
    @abstractmethod
    def listens_at(self) -> tuple[str, int]:
        """The address and the port where rank 0 has to listen."""

    @abstractmethod
    def share(self, meeting: Meeting | None) -> Meeting:
        """What rank 0 gives, on every rank; the others give none. Raises ``UserError`` where no library does that."""


class ByMpi(Launch):
    """Started by ``mpirun``: MPI carries the address to all ranks, and is ended then.

    All else goes over TCP, because a collective of MPI waits for ever for a rank that died.
    """

    listens_at = ("", 0)

    def share(self, meeting: Meeting | None) -> Meeting:
        """Broadcast by MPI, which ends a start in which a rank dies."""
        try:
            import mpi4py
        except ImportError:
            from hwdyno.system import optional

            raise optional.missing("mpi", f"a start by mpirun with {self.size} ranks") from None
        mpi4py.rc.finalize = False
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            line = " ".join(str(error).split())
            raise UserError(f"mpi4py finds no MPI library: {line}; install that of mpirun") from None
        shared: Meeting = MPI.COMM_WORLD.bcast(meeting, root=0)
        MPI.Finalize()
        return shared


class ByAddress(Launch):
    """Started by anything that gives each process the address of rank 0: Slurm, Kubernetes, or by hand."""

    def __init__(self, rank: int, size: int, meeting: Meeting) -> None:
        super().__init__(rank, size)
        self.meeting = meeting

    @property
    def listens_at(self) -> tuple[str, int]:
        """Every address of this host at the known port: a name of the cluster may be known to the others alone."""
        return "", self.meeting.port

    def share(self, meeting: Meeting | None) -> Meeting:
        """What the environment says."""
        return self.meeting


def find_launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """The start of several ranks that this process is of; none where it runs alone. Raises ``UserError``."""
    if place := environment.get(RENDEZVOUS):
        found = _read_rank(environment, _BY_ADDRESS)
        if found is None:
            raise UserError(f"{RENDEZVOUS} is set, and no launcher says which rank this is; set {RANK} and {RANKS}")
        return ByAddress(*found, _meeting(place, environment.get(SECRET, "")))
    found = _read_rank(environment, _BY_MPI)
    return ByMpi(*found) if found is not None and found[1] > 1 else None


@cache
def boot_id() -> str:
    """What names this start of the kernel; empty where it has no such name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def host_name(environment: Mapping[str, str] = os.environ) -> str:
    """This host's name: the cluster's for the node, as several of Slurm's may be one machine, and a pod is none."""
    return environment.get("SLURMD_NODENAME") or environment.get("HWDYNO_NODE") or socket.gethostname()


_JOB = {"SLURM_JOB_ID": "id", "SLURM_JOB_NAME": "name", "SLURM_JOB_NODELIST": "nodes"}
"""What a Run keeps of Slurm's variables."""


def describe_job(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What started the ranks of this process's start."""
    found = {name: environment[variable] for variable, name in _JOB.items() if environment.get(variable)}
    by = "slurm" if "SLURM_STEP_ID" in environment else "mpi" if RENDEZVOUS not in environment else "address"
    return {"launcher": by, **found}


def _read_rank(environment: Mapping[str, str], pairs: tuple[tuple[str, str], ...]) -> tuple[int, int] | None:
    """The rank and their number by the first pair of variables that is there; raises ``UserError``."""
    for rank_name, size_name in pairs:
        if rank_name not in environment or size_name not in environment:
            continue
        rank, size = environment[rank_name], environment[size_name]
        if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size) <= MAX_RANKS):
            raise UserError(f"{rank_name} '{rank}' and {size_name} '{size}' name no rank; start with a launcher")
        return int(rank), int(size)
    return None


def _meeting(place: str, secret: str) -> Meeting:
    address, colon, port = place.rpartition(":")
    if not colon or not address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"{RENDEZVOUS} '{place}' must be HOST:PORT, such as node1:5210")
    if len(secret) < 16:
        raise UserError(f"{SECRET} must have 16 characters or more, the same on each rank")
    return Meeting(address.strip("[]"), int(port), secret.encode())
