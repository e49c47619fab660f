"""Finds Node and the driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from .errors import make_error

OLDEST_NODE = 24

_HERE = Path(__file__).resolve().parent
#: In a wheel.
_BUNDLED = _HERE / "driver" / "main.mjs"
#: In a checkout.
_ROOT = _HERE.parent.parent
_SOURCE = _ROOT / "packages" / "sdk" / "src" / "driver" / "main.ts"
_OWN_NODES = (
    _ROOT / "node_modules" / ".bin" / "node",
    _ROOT / "scripts" / "node" / "node_modules" / ".bin" / "node",
)
_VERSION = re.compile(r"v(\d+)\.")

#: Major versions by path, so that each program is run with ``--version`` only once.
_versions: Dict[str, Optional[int]] = {}


def driver_command() -> List[str]:
    """The command that starts the driver. Raises ``invalid_request`` if the driver or Node is missing."""
    if _BUNDLED.is_file():
        return [_find_node(), str(_BUNDLED)]
    if not _SOURCE.is_file():
        raise make_error(
            "invalid_request",
            f"The driver is missing: neither {_BUNDLED} nor {_SOURCE} exists. Reinstall static_sdk.",
        )
    if not (_ROOT / "node_modules").is_dir():
        raise make_error(
            "invalid_request",
            f"The npm packages of the checkout {_ROOT} are not installed. Run `npm start` or `npm test` there once.",
        )
    return [_find_node(_OWN_NODES), str(_SOURCE)]


def driver_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """The environment without the ``NODE_*`` variables, which change how Node runs, and with a separate code cache."""
    own = {name: value for name, value in environment.items() if not name.upper().startswith("NODE_")}
    cache = _code_cache(environment.get("XDG_CACHE_HOME", ""))
    return own if cache is None else {**own, "NODE_COMPILE_CACHE": cache}


def _code_cache(home: str) -> Optional[str]:
    """Where Node keeps compiled code between runs, as for the command ``static``: ``<XDG cache>/static/code``.

    None if another user can write to it, because its content is executed.
    """
    base = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".cache"
    directory = base / "static" / "code"
    try:
        for path in (base, directory.parent, directory):
            if path.parent.is_dir() and not path.exists():
                path.mkdir(mode=0o700)
            # Anyone who can write to one of them can replace the next directory.
            found = path.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return None
        return None if directory.stat().st_mode & 0o077 else str(directory)
    except OSError:
        # Everything works without the cache, only slower.
        return None


def _find_node(own: "tuple[Path, ...]" = ()) -> str:
    chosen = os.environ.get("STATIC_NODE")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise make_error(
                "invalid_request",
                f"STATIC_NODE is {chosen}, which is not an executable. Set it to the path of Node.",
            )
        # The driver runs in another directory.
        return _checked(os.path.abspath(path), "STATIC_NODE is")
    for candidate in own:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    path = shutil.which("node")
    if path is None:
        raise make_error(
            "invalid_request",
            f"static_sdk needs Node {OLDEST_NODE} or newer, but there is no `node` in PATH. Install it "
            "(https://nodejs.org), or set STATIC_NODE to its path.",
        )
    return _checked(path, "The `node` in PATH is")


def _checked(path: str, what: str) -> str:
    version = _version_of(path)
    if version is not None and version >= OLDEST_NODE:
        return path
    found = "not Node" if version is None else f"Node {version}"
    raise make_error(
        "invalid_request",
        f"static_sdk needs Node {OLDEST_NODE} or newer. {what} {path}, which is {found}. Install a newer one "
        "(https://nodejs.org), or set STATIC_NODE to its path.",
    )


def _version_of(path: str) -> Optional[int]:
    if path not in _versions:
        try:
            said = subprocess.run(
                [path, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=driver_environment(os.environ),
                timeout=10,
            ).stdout.decode("utf-8", "replace")
        except (OSError, subprocess.TimeoutExpired):
            said = ""
        found = _VERSION.match(said)
        _versions[path] = int(found[1]) if found else None
    return _versions[path]
