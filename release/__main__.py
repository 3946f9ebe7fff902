"""``python -m release WORD``, one of `WORDS`: builds, checks and tries what users get."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from release import build, check, supply, trial, version

WORDS = ("setup", "wheels", "engines", "source", "install", "smoke", "matrix", "audit", "all", "version")


def main() -> int:
    """Do what the command line says; 1 with one line where something is not fit to be published."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("what", choices=WORDS)
    parser.add_argument("--out", type=Path, default=build.ROOT / "target" / "dist", metavar="DIR")
    parser.add_argument("--machine", choices=build.MACHINES, action="append", help="only these (default: all)")
    parser.add_argument("--offline", action="store_true", help="leave out checks that need the network")
    parser.add_argument("--pypa", type=Path, metavar="CLONE", help="of pypa/advisory-database, in place of the network")
    parser.add_argument("--rustsec", type=Path, metavar="CLONE", help="of rustsec/advisory-db, likewise")
    parser.add_argument("--version", default="", metavar="VERSION", help="of the commit and the tag to make")
    parser.add_argument("--whole", action="store_true", help="every Python of the matrix, not only its corners")
    args = parser.parse_args()
    out, machines = args.out.resolve(), tuple(args.machine or build.MACHINES)
    known = supply.Advisories(not args.offline, args.pypa, args.rustsec)
    try:
        if args.what == "all":
            return everything(out, known)
        if args.what == "version":
            print(f"{version.release_as(args.version)}: push it with the branch, and the release follows")
        if args.what == "setup":
            print(build.setup(), end="")
        if args.what in {"wheels", "source"}:
            shown([build.source(out)])
        if args.what == "wheels":
            for machine in machines:
                print(check.check_wheel(build.wheel(machine, out)))
        if args.what == "engines":
            for machine in machines:
                print(check.check_engine(build.engine(machine, out)))
        if args.what == "install":
            for machine in machines:
                native = machine == platform.machine()
                found = newest(out, f"*{machine}*.whl")
                print(*(trial.install(found) if native else [trial.install_foreign(found)]), sep="\n", flush=True)
            for path in sorted(out.glob("hwdyno-engine-*")):
                print(trial.try_engine(path))
        if args.what == "smoke":
            print(trial.smoke(next(iter(out.glob(f"*{platform.machine()}*.whl")), None)))
        if args.what == "matrix":
            for line in trial.matrix(newest(out, f"*{platform.machine()}*.whl"), args.whole):
                print(line, flush=True)
        if args.what == "audit":
            audit(known)
    except build.BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def newest(out: Path, pattern: str) -> Path:
    """The newest file of a pattern; raises ``BuildError`` where there is none."""
    found = sorted(out.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise build.BuildError(f"{out} has no {pattern}: make wheel")
    return found[-1]


def shown(paths: list[Path]) -> None:
    """List files with their sizes."""
    for path in paths:
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


def audit(known: supply.Advisories) -> None:
    """Check crates and packages."""
    print(supply.check_crates(known))
    print(supply.check_packages(known))


def everything(out: Path, known: supply.Advisories) -> int:
    """A whole release from a clean tag, with each wheel built twice, from two folders."""
    print(f"release {check.tag()}")
    audit(known)
    out.mkdir(parents=True, exist_ok=True)
    made = [build.source(out)]
    for machine in build.MACHINES:
        path = build.wheel(machine, out)
        print(check.check_wheel(path))
        check_again(machine, path)
        made += [path, build.engine(machine, out)]
        print(check.check_engine(made[-1]))
    made += [supply.bill_of(build.ROOT / lock, out) for lock in supply.LOCKS]
    (out / "SHA256SUMS").write_text(check.checksums(made))
    shown(made)
    return 0


def check_again(machine: str, first: Path) -> None:
    """Build a wheel once more from a copy of the commit elsewhere; raises ``BuildError`` if a byte differs."""
    with tempfile.TemporaryDirectory(prefix="hwdyno-release-") as folder:
        copy, out = Path(folder) / "copy", Path(folder) / "dist"
        build.run("git", "clone", "--quiet", build.ROOT, copy)
        environment = {"CARGO_TARGET_DIR": str(Path(folder) / "target")}
        build.run(sys.executable, "-m", "release", "wheels", "--machine", machine, "--out", out,
                  folder=copy, environment=environment)  # fmt: skip
        second = out / first.name
        if check.checksums([second]) != check.checksums([first]):
            kept = first.with_suffix(".second.whl")
            shutil.copy2(second, kept)
            raise build.BuildError(f"two builds of {first.name} differ; the second is {kept}")
    print(f"{first.name}: a second build elsewhere has the same bytes")


if __name__ == "__main__":
    sys.exit(main())
