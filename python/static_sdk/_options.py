"""The options of a client, defined once for all kinds of clients."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, Literal, Mapping, NamedTuple, Optional, Union

from .errors import make_error

#: Path of a file or directory.
Path = Union[str, "os.PathLike[str]"]

_LONGEST_CONNECT_TIMEOUT = 600


@dataclass(frozen=True)
class KeyFile:
    """Unlocks an agent's database with a file of 32 random bytes, which is created if the agent is new."""

    path: Path


@dataclass(frozen=True)
class Passphrase:
    """Unlocks an agent's database with a passphrase. Requires Node 24.7 or newer."""

    text: str = field(repr=False)


class Request(NamedTuple):
    """The data that the driver needs to open a client."""

    options: Dict[str, Any]
    #: None: from the environment.
    identity: Optional[bytes]
    environment: Dict[str, str]
    #: The API whose pages explain errors until the driver reports which one it uses.
    api_url: Optional[str]

    def fields(self, manager: bool) -> Mapping[str, Any]:
        """The fields of the call."""
        return {
            "manager": manager,
            "options": self.options,
            "environment": self.environment,
            "hasIdentity": self.identity is not None,
        }


class Configured:
    """Base class of clients: their options.

    Args:
        endpoint: Address of the relay, ``quic://host:4433`` or ``https://host:5000``, or several of one kind separated
            by commas: the nodes of one relay, dialed in random order until one answers. Environment:
            ``STATIC_RELAY``.
        data_dir: The agent's directory, used by this agent only. Environment: ``STATIC_DATA_DIR``.
        identity: The name that the agent uses in channels, 1 to 255 bytes, the first not zero; a string is encoded as
            UTF-8. Environment: ``STATIC_IDENTITY``.
        api_key: With an API key, the agent acts for its account. An empty string makes it a guest even if a key is set
            elsewhere: it can use channels but not create them. Environment: ``STATIC_API_KEY``.
        api_url: https URL of the API, which exchanges the key for tokens. Environment: ``STATIC_API_URL``.
        ca: CA of the relay's and the API's certificates, a path or PEM text. Environment: ``STATIC_CA``.
        relay_name: Name in the relay's certificate if it is not the host of the endpoint: for IP addresses and several
            hosts. Environment: ``STATIC_RELAY_NAME``.
        link: An invite link, for an agent that has no relay yet: the link contains its address, name and CA, and the
            agent stores them in ``data_dir``. At a relay it knows only from a link, the agent is a guest, unless the
            same endpoint is configured here.
        grpc_port: Port of gRPC at the relay's host, if QUIC cannot connect. Default: the port that the relay announced
            in an earlier session, or 5000. Environment: ``STATIC_GRPC_PORT``.
        accept_relay: Id of the relay, 64 hexadecimal digits, to accept in place of the one this agent knows. It is the
            id in the error ``relay_changed``. Pass it only once you know that the operator has set the relay up again.
            The channels of the old relay end.
        traffic: Traffic profile: ``"off"``, ``"standard"`` (the default), ``"private"`` or ``"strict"``.
        cells_per_second: Cells per second of the profile ``strict``, 1 to 64. Default: 4.
        offers: Whose offers to join a channel are accepted: ``"anyone"`` (the default), ``"known"`` (agents it has met
            in a channel) or ``"none"``.
        receipts: The level that this agent's signed receipts report to the other members of a channel: ``"settled"``
            (the default), how far the application has settled messages; ``"delivered"``, only how far they were
            received; or ``"off"``, no receipts.
        key: The key that unlocks the agent's database: a ``KeyFile`` or a ``Passphrase``. Default: the file
            ``agent.key`` in ``data_dir``.
        fallback: Use gRPC if QUIC cannot connect.
        accept_rolled_back: Open the database even if it is an old copy. Use it only to leave its channels: sending
            would use keys twice.
        connect_timeout: Seconds that one attempt to reach the relay may take.
        wait: Start even if the relay or the API cannot be reached; the agent connects later.
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        data_dir: Optional[Path] = None,
        identity: Union[bytes, str, None] = None,
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        *,
        ca: Optional[Path] = None,
        relay_name: Optional[str] = None,
        link: Optional[str] = None,
        grpc_port: Optional[int] = None,
        accept_relay: Optional[str] = None,
        traffic: Optional[Literal["off", "standard", "private", "strict"]] = None,
        cells_per_second: Optional[int] = None,
        offers: Optional[Literal["anyone", "known", "none"]] = None,
        receipts: Optional[Literal["settled", "delivered", "off"]] = None,
        key: Union[KeyFile, Passphrase, None] = None,
        fallback: bool = True,
        accept_rolled_back: bool = False,
        connect_timeout: float = 5,
        wait: bool = False,
    ) -> None:
        options = {
            "endpoint": endpoint,
            "dataDir": None if data_dir is None else _absolute(os.fspath(data_dir)),
            "apiUrl": api_url,
            "ca": None if ca is None else _absolute(os.fspath(ca)),
            "relayName": relay_name,
            "link": link,
            "grpcPort": grpc_port,
            "acceptRelay": accept_relay,
            "traffic": traffic,
            "cellsPerSecond": cells_per_second,
            "offers": offers,
            "receipts": receipts,
            "key": None if key is None else _key_source(key),
            "fallback": fallback,
            "acceptRolledBack": accept_rolled_back,
            "connectTimeoutMs": _milliseconds(connect_timeout),
            "wait": wait,
        }
        given: Dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if api_key is not None:
            given["apiKey"] = None if api_key == "" else api_key
        explaining = api_url or os.environ.get("STATIC_API_URL")
        self._begin(
            Request(
                options=given,
                identity=None if identity is None else identity_bytes(identity),
                environment=_environment(os.environ),
                api_url=explaining if isinstance(explaining, str) and explaining else None,
            )
        )

    def _begin(self, request: Request) -> None:
        raise NotImplementedError


def identity_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"identity must be bytes or str, not {type(value).__name__}")


def _key_source(key: object) -> Dict[str, str]:
    if isinstance(key, KeyFile):
        return {"type": "file", "path": _absolute(os.fspath(key.path))}
    if isinstance(key, Passphrase):
        return {"type": "passphrase", "passphrase": key.text}
    raise TypeError(f"key must be a KeyFile or a Passphrase, not {type(key).__name__}")


def _milliseconds(connect_timeout: float) -> int:
    if not 0.001 <= connect_timeout <= _LONGEST_CONNECT_TIMEOUT:
        raise make_error(
            "invalid_request",
            f"`connect_timeout` is {connect_timeout}. It must be a number of seconds from 0.001 to "
            f"{_LONGEST_CONNECT_TIMEOUT}.",
        )
    return round(connect_timeout * 1000)


def _environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """The variables that options come from. The driver may have started before they, or the directory, changed."""
    given = {
        name: value for name, value in environment.items() if name == "HOME" or name.startswith(("STATIC_", "XDG_"))
    }
    for name in ("STATIC_DATA_DIR", "STATIC_CA"):
        if name in given:
            given[name] = _absolute(given[name])
    return given


def _absolute(path: str) -> str:
    """An absolute path, because the driver may run in another directory. Keeps PEM text and empty paths."""
    return path if not path or "-----BEGIN " in path else os.path.abspath(path)
