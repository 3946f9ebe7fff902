"""Raw devices: read by default, and written only where no one uses them, they are empty, and they were named."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from devices import MIB, command, loop, loops, mounted
from hwdyno import studies
from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.system.store import from_json

pytestmark = [pytest.mark.machine, loops]

QUICK = ["--runtime", "50ms", "--ramp-time", "0s", "--budget", "2s", "--ioengine", "psync", "--quiet", "--no-page"]


@pytest.fixture
def backing(tmp_path: Path) -> Path:
    return tmp_path / "disk"


@pytest.fixture
def device(backing: Path) -> Iterator[Path]:
    with loop(backing, 32 * MIB, "--partscan") as made:
        yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def written(device: Path, serial: str, **more: Any) -> dict[str, Any]:
    """One short write by the engine itself, with no Python before it."""
    parameters = {
        "path": str(device),
        "rw": "write",
        "ioengine": "psync",
        "bs": MIB,
        "size": 4 * MIB,
        "time_based": False,
    }
    return engine.run("storage_blocks", {**parameters, "destroy": str(device), "serial": serial, **more})


@contextlib.contextmanager
def at_rest(device: Path, where: Path) -> Iterator[Path]:
    """A device with a mounted filesystem to which the kernel writes nothing by itself: it is read-only by then.

    A writable one gets tables that mkfs leaves to it, times of access, and the superblock's counts of its journal.
    """
    command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    with mounted(device, where, "-o", "noatime"):
        command("mount", "-o", "remount,ro", where)
        command("sync", "--file-system", where)
        yield where


def refused(device: Path, serial: str, **more: Any) -> str:
    """Why the engine does not write, in one line; nothing may have changed."""
    before = command("sha256sum", device)
    with pytest.raises(ValueError) as caught:
        written(device, serial, **more)
    assert command("sha256sum", device) == before
    says = str(caught.value)
    assert "\n" not in says
    return says


def test_device_bypasses_the_page_cache(device: Path, backing: Path) -> None:
    for more in ({"rw": "read"}, {"rw": "write"}):
        reading = written(device, str(backing), direct=True, **more)
        assert reading["details"]["direct_used"] is True and not reading["notes"], more


def test_a_purge_discards_the_whole_device_and_only_one_that_was_given_away(device: Path, backing: Path) -> None:
    device.write_bytes(b"x" * (32 * MIB))
    refused(device, "another", purge=True)
    reading = written(device, str(backing), purge=True)
    assert [note["code"] for note in reading["notes"]] == ["purged"]
    content = device.read_bytes()
    assert content[4 * MIB :] == bytes(28 * MIB) and content[: 4 * MIB].count(0) < MIB


def test_snia_device_test_begins_with_purge(device: Path, backing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device.write_bytes(b"x" * (32 * MIB))
    typed = ["--path", str(device), "--destroy", str(device), "--serial", str(backing), "--ioengine", "psync"]
    brief = ["--profile", "standard", "--budget", "3s", "--quiet", "--no-page", "--json"]
    assert main(["storage", "snia", "latency", *typed, *brief]) in {0, 3}
    shortened, before = studies.observations(from_json(capsys.readouterr().out))[1:3]
    assert "per workload and round" in shortened and "not purged" not in shortened
    assert before.startswith("Before, the whole device was discarded (BLKDISCARD); then ")


def test_a_free_device_that_was_named_is_written_and_read(
    device: Path, backing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["storage", "--path", str(device), "--rw", "randwrite,randread", *QUICK, "--json"]
    assert main([*typed, "--destroy", str(device), "--serial", str(backing)]) in {0, 3}
    run = from_json(capsys.readouterr().out)
    (result,) = run.experiments
    done = {str(point.parameters["rw"]): point for point in result.points}
    assert done["randwrite"].bytes > 0 and done["randread"].bytes > 0
    assert not any(point.faults for point in result.points)
    assert not {"destroy", "serial"} & set(result.fixed)
    # All of it was written once, so that no read is of a block without data.
    content = backing.read_bytes()
    assert all(any(content[at : at + 512]) for at in range(0, 32 * MIB, MIB))
    assert written(device, str(32 * MIB))["streams"][0]["bytes"] == 4 * MIB


def test_it_is_read_without_any_words_and_never_changed(device: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = command("sha256sum", device)
    assert main(["storage", "--path", str(device), "--rw", "randread", *QUICK, "--json"]) in {0, 3}
    assert from_json(capsys.readouterr().out).experiments[0].points[0].operations > 0
    assert command("sha256sum", device) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "To overwrite it, add --destroy"),
        (["--destroy", "{device}"], "needs --serial"),
        (["--destroy", "/dev/null", "--serial", "{backing}"], "is not the device of --path"),
        (["--destroy", "{name}", "--serial", "{backing}"], "is not the device of --path"),
        (["--destroy", "{device}", "--serial", "S4EVNX0N"], "--serial is not that of this device"),
        (["--destroy", "{device}", "--serial", "64M"], "type the path of its backing file, or its size in bytes"),
    ],
)
def test_every_word_of_consent_counts(
    device: Path, backing: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = command("sha256sum", device)
    given = [word.format(device=device, backing=backing, name=device.name) for word in words]
    assert main(["storage", "--path", str(device), "--rw", "write", *QUICK, *given]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert command("sha256sum", device) == before


def test_no_plan_and_no_job_file_gives_a_device_away(
    device: Path, backing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    axes = f'axes = {{ rw = "write", destroy = "{device}", serial = "{backing}" }}'
    plan.write_text(f'path = "{device}"\n[[experiment]]\nname = "storage.grid"\n{axes}\n')
    assert main(["run", str(plan), "--quiet"]) == 2
    assert "from the command line only" in capsys.readouterr().err
    job = tmp_path / "job.fio"
    job.write_text(f"[w]\nrw=write\nfilename={device}\nsize=1m\n")
    for words in ([], ["--destroy", str(device), "--serial", str(backing)]):
        assert main(["storage", "job", str(job), "--quiet", *words]) == 2
        assert "raw device" in capsys.readouterr().err
    assert main(["storage", "--path", str(tmp_path), "--rw", "write", "--destroy", str(device), *QUICK]) == 2
    assert "--destroy is for raw devices" in capsys.readouterr().err
    assert not any(backing.read_bytes())


def test_a_partitioned_device_and_a_partition_are_refused(device: Path, backing: Path) -> None:
    # BLKPG makes partitions that no table on the device reports, as kernels without partition tables have them.
    command("addpart", device, "1", "2048", "8192")
    assert f"it has partitions ({device.name}p1)" in refused(device, str(backing))
    partition = Path(f"{device}p1")
    assert f"it is a partition of {device.name}" in refused(partition, str(8192 * 512))
    with at_rest(partition, backing.parent / "mounted"):
        assert f"its partition {device.name}p1 is mounted at" in refused(device, str(backing))
    command("mkswap", partition)
    command("swapon", partition)
    try:
        assert f"its partition {device.name}p1 is used as swap" in refused(device, str(backing))
    finally:
        command("swapoff", partition)
    command("delpart", device, "1")


def test_a_mounted_device_is_refused(device: Path, backing: Path) -> None:
    with at_rest(device, backing.parent / "mounted") as where:
        assert f"it is mounted at {where}" in refused(device, str(backing))
    assert "has an ext2, ext3 or ext4 filesystem" in refused(device, str(backing))
    command("wipefs", "--all", device)
    assert written(device, str(backing))["streams"][0]["bytes"] == 4 * MIB


def test_swap_is_refused(device: Path, backing: Path) -> None:
    command("mkswap", device)
    command("swapon", device)
    try:
        assert "it is used as swap (swapoff" in refused(device, str(backing))
    finally:
        command("swapoff", device)
    assert "has swap space" in refused(device, str(backing))


def test_data_behind_other_device_is_refused(device: Path, backing: Path) -> None:
    with loop(device) as upper:
        assert f"it backs {upper.name} " in refused(device, str(backing))


def test_a_device_that_is_set_read_only_is_refused(backing: Path) -> None:
    with loop(backing, 4 * MIB, "--read-only") as device:
        assert "it is set read-only" in refused(device, str(backing))


def test_process_that_writes_it_keeps_it(device: Path, backing: Path) -> None:
    holder = os.open(device, os.O_RDWR)
    other = os.fork()
    if other == 0:
        time.sleep(60)
        os._exit(0)
    os.close(holder)
    try:
        assert f"process {other} (" in refused(device, str(backing))
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)


def test_exclusive_holder_keeps_the_device(device: Path, backing: Path) -> None:
    holder = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        assert "it is in exclusive use" in refused(device, str(backing))
    finally:
        os.close(holder)


def test_a_device_mounted_between_the_check_and_the_open_is_refused(
    device: Path, backing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line's check has passed; then it is mounted; then the engine opens it."""
    real, where = Local.run, backing.parent / "mounted"

    def mounts_first(self: Local, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if not where.exists():
            command("mkfs.ext4", "-q", device)
            where.mkdir()
            command("mount", device, where)
            (where / "thesis").write_text("years of work")
        return real(self, kernel, parameters)

    monkeypatch.setattr(Local, "run", mounts_first)
    words = ["--destroy", str(device), "--serial", str(backing)]
    try:
        assert main(["storage", "--path", str(device), "--rw", "write", *QUICK, *words]) == 2
        assert "it is mounted at" in capsys.readouterr().err
        assert (where / "thesis").read_text() == "years of work"
    finally:
        command("umount", where)
    assert command("e2fsck", "-fn", device)


def test_nobody_can_mount_it_while_it_is_written(device: Path, backing: Path) -> None:
    """The race is over after the open: the claim keeps mounts, swap and other runs away."""
    answers: list[Any] = []

    def writes() -> None:
        answers.append(written(device, str(backing), time_based=True, runtime=1.5))

    thread = threading.Thread(target=writes)
    thread.start()
    time.sleep(0.5)
    with pytest.raises(OSError, match="busy"):
        os.open(device, os.O_RDWR | os.O_EXCL)  # What mount and swapon ask for.
    with pytest.raises(ValueError, match="exclusive use"):
        written(device, str(backing))
    thread.join()
    assert answers[0]["streams"][0]["bytes"] > 0 and not answers[0]["faults"]


MAKERS: dict[str, tuple[str, list[str]]] = {
    "mkfs.xfs": ("an XFS filesystem", ["-q", "-f"]),
    "mkfs.btrfs": ("a btrfs filesystem", ["-q", "-f"]),
    "mkfs.vfat": ("a FAT filesystem", []),
    "mkfs.f2fs": ("an F2FS filesystem", ["-q"]),
    "mkntfs": ("an NTFS filesystem", ["-Q", "-F"]),
    "mkswap": ("swap space", []),
    "mkfs.minix": ("a Minix filesystem", []),
}


def test_signatures_are_found_as_their_makers_leave_them(tmp_path: Path) -> None:
    """Those makers that this machine has; the marks themselves are tested in the engine."""
    for maker, (signature, options) in MAKERS.items():
        if shutil.which(maker):
            backing = tmp_path / maker
            with loop(backing, 320 * MIB) as device:
                command(maker, *options, device)
                assert f"it has {signature}" in _why(device, str(backing))


def test_partitions_and_encrypted_volumes_are_found(tmp_path: Path) -> None:
    encrypted = "luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000"
    for at, (tool, script, signature) in enumerate(
        [
            ("sfdisk", "printf 'label: gpt\\n,16M\\n' | sfdisk --quiet --no-reread --no-tell-kernel {}", "a GPT"),
            ("sfdisk", "printf 'label: dos\\n,16M\\n' | sfdisk --quiet --no-reread --no-tell-kernel {}", "an MBR"),
            ("cryptsetup", f"echo x | cryptsetup {encrypted} {{}} -", "a LUKS"),
            ("pvcreate", "pvcreate -y -q {}", "an LVM"),
        ]
    ):
        if shutil.which(tool):
            backing = tmp_path / str(at)
            with loop(backing, 64 * MIB) as device:
                command("sh", "-c", script.format(device), check=False)
                assert f"it has {signature}" in _why(device, str(backing))


def _why(device: Path, serial: str) -> str:
    with pytest.raises(ValueError) as caught:
        written(device, serial)
    return str(caught.value)
