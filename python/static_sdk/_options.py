"""Makes a request to the driver of a client's options."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, Literal, Mapping, NamedTuple, Optional, Sequence, Union

from ._handler_log import HandlerLog, Logger
from .errors import make_error

#: Whose proof an agent shows in a channel: an issuer, True for its only one, None for what it shows already.
Show = Union[str, Literal[True], None]
#: The rules that agents must satisfy, of which one must hold.
Require = Union[str, Sequence[str], None]
#: Path of a file or directory.
Path = Union[str, "os.PathLike[str]"]

#: A function that gets a token for an audience; in asyncio, it may be a coroutine function.
Mint = Callable[[str], Union[str, Awaitable[str]]]


@dataclass(frozen=True)
class KeyFile:
    """Unlocks an agent's database with a file of 32 random bytes, which is created if the agent is new."""

    path: Path


@dataclass(frozen=True)
class Passphrase:
    """Unlocks an agent's database with a passphrase. Requires Node 24.7 or newer."""

    text: str = field(repr=False)


@dataclass(frozen=True)
class ProofFile:
    """A file with the JWT of an issuer about this agent, read each time that the agent shows its proof."""

    path: Path


class Request(NamedTuple):
    """The data that the driver needs to open a client."""

    options: Dict[str, Any]
    #: None: from the environment.
    identity: Optional[bytes]
    environment: Dict[str, str]
    #: The API whose pages explain errors until the driver reports which one it uses.
    api_url: Optional[str]
    log: HandlerLog
    #: The function of ``proof``.
    mint: Optional[Mint]

    def fields(self) -> Mapping[str, Any]:
        """The fields of the call."""
        return {
            "options": self.options,
            "environment": self.environment,
            "hasIdentity": self.identity is not None,
        }


def request(
    options: Dict[str, Any], identity: Union[bytes, str, None], logger: Union[Logger, Literal[False], None]
) -> Request:
    """The options that are given; an empty API key means none."""
    given = {name: value for name, value in options.items() if value is not None}
    mint = given.get("proof")
    if callable(mint):
        given["proof"] = {"mint": True}
    if given.get("apiKey") == "":
        given["apiKey"] = None
    explaining = given.get("apiUrl") or os.environ.get("STATIC_API_URL")
    return Request(
        options=given,
        identity=None if identity is None else identity_bytes(identity),
        environment=_environment(os.environ),
        api_url=explaining if isinstance(explaining, str) and explaining else None,
        log=HandlerLog(logger),
        mint=mint if callable(mint) else None,
    )


def identity_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"identity must be bytes or str, not {type(value).__name__}")


def key_source(key: object) -> Optional[Dict[str, Optional[str]]]:
    if key is None:
        return None
    if isinstance(key, KeyFile):
        return {"type": "file", "path": absolute(key.path)}
    if isinstance(key, Passphrase):
        return {"type": "passphrase", "passphrase": key.text}
    raise TypeError(f"key must be a KeyFile or a Passphrase, not {type(key).__name__}")


def proof_source(proof: Union[ProofFile, Mint, str, None]) -> Union[Dict[str, Optional[str]], Mint, str, None]:
    if proof is None or isinstance(proof, str) or callable(proof):
        return proof
    if isinstance(proof, ProofFile):
        return {"file": absolute(proof.path)}
    raise TypeError(f'proof must be a ProofFile, a function or "github-actions", not {type(proof).__name__}')


def history_rule(history: Union[int, Literal[False], None]) -> Union[Dict[str, int], Literal[False], None]:
    return history if history is None or history is False else {"days": history}


def proving(show: Show = None, require: Require = None) -> Dict[str, Any]:
    """The fields of a call about proofs that are given."""
    rules = require if require is None or isinstance(require, str) else list(require)
    return {name: value for name, value in (("show", show), ("require", rules)) if value is not None}


def milliseconds(name: str, seconds: float, least: float, most: float) -> int:
    if not least <= seconds <= most:
        raise make_error(
            "invalid_request", f"`{name}` is {seconds}. It must be a number of seconds from {least} to {most}."
        )
    return round(seconds * 1000)


def _environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """The variables that options come from. The driver may have started before they, or the directory, changed."""
    given = {
        name: value
        for name, value in environment.items()
        if name in ("HOME", "HTTPS_PROXY", "NO_PROXY")
        or name.startswith(("STATIC_", "XDG_", "ACTIONS_ID_TOKEN_REQUEST_"))
    }
    for name in ("STATIC_DATA_DIR", "STATIC_CA"):
        if name in given:
            given[name] = _absolute(given[name])
    return given


def absolute(path: Optional[Path]) -> Optional[str]:
    return None if path is None else _absolute(os.fspath(path))


def _absolute(path: str) -> str:
    """An absolute path, because the driver may run in another directory. Keeps PEM text and empty paths."""
    if not path or "-----BEGIN " in path:
        return path
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        text = f"{path} is relative, and the current directory is gone. Pass an absolute path."
        raise make_error("invalid_request", text, cause=error) from error
