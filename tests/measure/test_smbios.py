"""Memory modules from a made SMBIOS table, and from garbage."""

from __future__ import annotations

from pathlib import Path

from hwdyno.analysis.ceilings.memory import of_modules
from hwdyno.measure.hosts import smbios
from hwdyno.model.machine import Machine
from hypothesis import given
from hypothesis import strategies as st


def device(locator: str, bank: str, size_mib: int, mt_s: int) -> bytes:
    body = bytearray(0x28)
    body[0], body[1] = 17, len(body)
    body[0x0C:0x0E] = (0x7FFF if size_mib >= 0x7FFF else size_mib).to_bytes(2, "little")
    body[0x10], body[0x11] = 1, 2
    body[0x1C:0x20] = size_mib.to_bytes(4, "little")
    body[0x20:0x22] = mt_s.to_bytes(2, "little")
    return bytes(body) + locator.encode() + b"\0" + bank.encode() + b"\0\0"


def table(tmp_path: Path, *structures: bytes) -> Path:
    path = tmp_path / smbios.TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(structures) + bytes([127, 4, 0, 0, 0, 0]))
    return tmp_path


def test_populated_channels_make_the_ceiling(tmp_path: Path) -> None:
    root = table(
        tmp_path,
        device("DIMM_A1", "P0 CHANNEL A", 32768, 4800),
        device("DIMM_A2", "P0 CHANNEL A", 16384, 4800),
        device("DIMM_B1", "P0 CHANNEL B", 16384, 4800),
        device("DIMM_C1", "P0 CHANNEL C", 0, 0),
    )
    found, why = smbios.modules(root)
    assert not why and [module["size_bytes"] for module in found] == [32 << 30, 16 << 30, 16 << 30]
    (ceiling,) = of_modules(Machine.of_survey({"memory": {"modules": found}}))
    assert ceiling.value == 4800e6 * 2 * 8


def test_what_is_not_told_is_said(tmp_path: Path) -> None:
    assert "no SMBIOS table" in smbios.modules(tmp_path)[1]
    assert "no memory modules" in smbios.modules(table(tmp_path))[1]
    found, why = smbios.modules(table(tmp_path, device("DIMM 0", "", 16384, 0)))
    assert len(found) == 1 and "no speed" in why and of_modules(Machine.of_survey({"memory": {"modules": found}})) == ()


@given(st.binary(max_size=200))
def test_garbage_is_no_traceback(raw: bytes) -> None:
    for structure in smbios._structures(raw):
        smbios._module(structure)
    for structure in smbios._structures(device("DIMM_A1", "x", 1024, 3200) + raw):
        smbios._module(structure)
