"""Builds the wheel: the package, the driver and its clock as one JavaScript file each, and the native npm packages.

The wheel is for this platform only and does not contain Node. This is a build backend (PEP 517) that uses only the
standard library, so that ``pip install ./python`` works in a checkout without a package index;
``python3 python/build_wheel.py DIRECTORY`` only builds the wheel. The checkout's npm packages must be installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from static_sdk import __version__, _driver  # noqa: E402

ROOT = HERE.parent
NAME = "static_sdk"
INFO = f"{NAME}-{__version__}.dist-info"
#: Copied instead of bundled, because they contain machine code.
NATIVE = ("@currentspace/http3", "better-sqlite3-multiple-ciphers", "sodium-native")
#: Suffixes of the files of an npm package that are needed at run time.
USED = (".js", ".cjs", ".mjs", ".json", ".node")
#: Marks the version of glibc that a symbol of a program comes from.
GLIBC = re.compile(rb"GLIBC_2\.([0-9]+)")
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}

METADATA = f"""\
Metadata-Version: 2.1
Name: static-sdk
Version: {__version__}
Summary: Private channels for software agents: the SDK for Python
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
WHEEL = f"""\
Wheel-Version: 1.0
Generator: {Path(__file__).name}
Root-Is-Purelib: false
Tag: """


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    """Builds the wheel in a directory and returns its file name."""
    name = f"{NAME}-{__version__}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as temporary:
        content = Path(temporary)
        assemble(content)
        files = sorted(path for path in content.rglob("*") if path.is_file())
        with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path in files:
                # The same time and mode for all, so that the same sources give the same bytes.
                entry = zipfile.ZipInfo(path.relative_to(content).as_posix(), (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o100644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                wheel.writestr(entry, path.read_bytes())
    return name


def tag() -> str:
    """The tag of the wheel. An index takes one for Linux only if it names the oldest glibc that it runs with (PEP 600)."""
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if system.startswith("linux_"):
        machine_code = [path for name in closure(NATIVE) for path in used_files(name) if path.suffix == ".node"]
        newest = max(int(minor) for path in machine_code for minor in GLIBC.findall(path.read_bytes()))
        system = system.replace("linux_", f"manylinux_2_{newest}_", 1)
    return f"py3-none-{system}"


def assemble(content: Path) -> None:
    """Writes the contents of the wheel to a directory, in the installed layout."""
    package = content / NAME
    shutil.copytree(HERE / NAME, package, ignore=shutil.ignore_patterns("__pycache__", "driver"))
    node, source = _driver.driver_command()
    driver = package / "driver" / "main.mjs"
    bundle(node, source, driver)
    # The driver starts the clock as a worker thread and refers to it by the name of its source file.
    bundle(node, str(ROOT / "packages" / "sdk" / "src" / "transport" / "clock-worker.ts"), driver.parent / "clock.mjs")
    text = driver.read_text("utf-8")
    if text.count("./clock-worker.ts") != 1:
        sys.exit("Expected exactly one reference to ./clock-worker.ts in the bundled driver. Update build_wheel.py.")
    driver.write_text(text.replace("./clock-worker.ts", "./clock.mjs"), "utf-8")
    for name in closure(NATIVE):
        copy_package(name, package / "driver" / "node_modules" / name)
    info = content / INFO
    info.mkdir()
    (info / "METADATA").write_text(METADATA + (HERE / "README.md").read_text("utf-8"), "utf-8")
    (info / "WHEEL").write_text(f"{WHEEL}{tag()}\n", "utf-8")
    files = sorted(path for path in content.rglob("*") if path.is_file())
    lines = [record(content, path) for path in files]
    (info / "RECORD").write_text("".join(lines) + f"{INFO}/RECORD,,\n", "utf-8")


def bundle(node: str, source: str, file: Path) -> None:
    """Bundles a program and its JavaScript-only dependencies into one file."""
    # rolldown is installed with Vite, which builds the console.
    rolldown = ROOT / "node_modules" / "rolldown" / "bin" / "cli.mjs"
    words = [node, str(rolldown), source, "--format", "esm", "--platform", "node", "--file", str(file)]
    # QUIC, which the SDK imports when it is used, belongs to the same file.
    words.append("--no-code-splitting")
    for name in NATIVE:
        words += ["--external", name]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit("rolldown could not bundle the driver:\n" + done.stdout.decode("utf-8", "replace"))


def closure(names: Iterable[str]) -> List[str]:
    """The npm packages and all their dependencies."""
    found: List[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            described = json.loads((ROOT / "node_modules" / name / "package.json").read_text("utf-8"))
            waiting += described.get("dependencies", {})
    return sorted(found)


def used_files(name: str) -> Iterator[Path]:
    """The run-time files of an npm package and its licence, with machine code for this platform only."""
    source = ROOT / "node_modules" / name
    system = f"{sys.platform}-{MACHINES[platform.machine().lower()]}"
    for path in source.rglob("*"):
        place = path.relative_to(source).as_posix()
        is_used = path.suffix in USED or path.name.upper().startswith("LICENSE")
        if path.is_file() and is_used and (path.suffix != ".node" or system in place):
            yield path


def copy_package(name: str, target: Path) -> None:
    """Copies what is needed of an npm package."""
    for path in used_files(name):
        place = target / path.relative_to(ROOT / "node_modules" / name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def record(content: Path, path: Path) -> str:
    """A line of RECORD."""
    data = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(content).as_posix()},sha256={digest},{len(data)}\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    target.mkdir(parents=True, exist_ok=True)
    print(target / build_wheel(str(target)))
