"""An agent as the application uses it."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, TypeVar, Union

from ._closing import Closing
from ._connection import Call, Connection
from .channel import Channel, as_bytes

Item = TypeVar("Item")
#: Of a file or directory.
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class JoinOffer:
    """A channel that somebody has added this agent to. Nothing of it is read or sent before ``accept``."""

    name: str
    channel_id: str
    #: Fingerprints, from inside the Welcome: compare them before you accept.
    owner: str
    added_by: str
    accept: Callable[[], Channel]
    #: Leaves the channel without joining it.
    decline: Callable[[], None]


class Listening(Closing, Generic[Item]):
    """A blocking iterator over what the client tells."""

    def __init__(self, client: "StaticClient", connection: Connection, what: str, item: Callable[[Any], Item]) -> None:
        self._client = client
        self._connection = connection
        self._item = item
        self._on, _ = connection.call(what)
        #: Of a ``next`` that Ctrl-C has interrupted.
        self._next: Optional[Call] = None

    def __iter__(self) -> "Listening[Item]":
        return self

    def __next__(self) -> Item:
        if self._next is None:
            self._next = self._connection.begin("next", on=self._on)
        told, _ = self._next.wait()
        self._next = None
        if told.get("done"):
            raise StopIteration
        return self._item(told)

    def close(self) -> None:
        """Ends the iterator, also for a thread that waits in it."""
        if not self._connection.is_over:
            self._connection.call("return", on=self._on)


class StaticClient(Closing):
    """An agent with its keys, its channels and a session to a relay that is dialled again whenever it is lost.

    ``endpoint`` is the relay, ``quic://host:4433`` or ``https://host:5000``; ``data_dir`` the agent's directory, for
    itself alone; ``identity`` what it calls itself, 1 to 255 bytes. With an ``api_key`` (and the ``api_url`` where it
    is exchanged for tokens) the agent acts for its account; without one it is a guest, which can talk in channels but
    not create them. ``ca`` is the authority of the relay's and the API's certificates, a path or PEM text. ``offers``
    says whose offers to join a channel are taken: ``"anyone"`` (the default), ``"known"`` (agents that it has met in a
    channel) or ``"none"``.

    None stands for the environment: ``STATIC_RELAY``, ``STATIC_DATA_DIR``, ``STATIC_IDENTITY``, ``STATIC_API_KEY``,
    ``STATIC_API_URL``, ``STATIC_CA``, then for the per-user file. An empty ``api_key`` makes a guest in any case.

    Raises ``StaticError``, which is a ``RuntimeError``: ``connection_error`` when the relay cannot be reached,
    ``AuthError`` when it or the API refuses, ``invalid_request`` for wrong arguments, ``store_*`` when the database
    cannot be opened.
    """

    def __init__(
        self,
        endpoint: Optional[str],
        data_dir: Optional[Path],
        identity: Optional[bytes],
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        *,
        ca: Optional[Path] = None,
        traffic: Optional[str] = None,
        offers: Optional[str] = None,
    ) -> None:
        self._open(False, options_of(endpoint, data_dir, api_key, api_url, ca, traffic, offers), identity)

    def _open(self, manager: bool, options: Mapping[str, Any], identity: Optional[bytes]) -> None:
        data = b"" if identity is None else as_bytes(identity, "identity")
        self._channels: Dict[int, Channel] = {}
        self._lock = threading.Lock()
        # Who cannot connect does not learn from the driver which API explains why.
        api_url = options.get("apiUrl") or os.environ.get("STATIC_API_URL")
        self._connection = Connection(api_url if isinstance(api_url, str) and api_url else None)
        try:
            told, _ = self._connection.call(
                "connect", data, manager=manager, options=options, hasIdentity=identity is not None
            )
        except BaseException:
            self._connection.close()
            raise
        self._connection.api_url = told["apiUrl"]
        self._agent_id: str = told["agentId"]
        self._fingerprint: str = told["fingerprint"]
        # A client that nobody holds any more takes its driver with it.
        weakref.finalize(self, self._connection.end).atexit = False

    @property
    def agent_id(self) -> str:
        """SHA-256 of this agent's key, 64 hexadecimal digits: what others add it by."""
        return self._agent_id

    def fingerprint(self) -> str:
        """The agent id for people, to read aloud or compare."""
        return self._fingerprint

    def create_channel(self, name: str) -> Channel:
        """Creates a channel and owns it. The own channel of that name is returned.

        Raises ``channel_error`` for a bad name, ``channel_exists`` or ``api_key_required``.
        """
        return self._channel(self._connection.call("createChannel", name=name)[0])

    def channel(self, name: str) -> Channel:
        """Opens a channel that this agent is in, also after a restart. Raises ``channel_error`` or ``not_found``."""
        return self._channel(self._connection.call("channel", name=name)[0])

    def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return [self._channel(told) for told in self._connection.call("channels")[0]]

    def generate_key_package(self) -> bytes:
        """Makes a KeyPackage, for one use within 84 days, by which others can add this agent."""
        return self._connection.call("generateKeyPackage")[1]

    def join_channel(self, name: str, welcome: bytes, owner: Optional[str] = None) -> Channel:
        """Joins a channel by a Welcome that was handed over.

        Without ``owner``, the owner's fingerprint, the bytes must have come by a way that nobody else can write to:
        whoever made the Welcome decides who is in the channel. Raises ``invalid_welcome``, ``channel_exists`` or
        ``channel_error``.
        """
        fields = {} if owner is None else {"owner": owner}
        return self._channel(
            self._connection.call("joinChannel", as_bytes(welcome, "welcome"), name=name, **fields)[0]
        )

    def joins(self) -> "Listening[JoinOffer]":
        """Channels that others have added this agent to, those that wait first, then as they come."""
        return Listening(self, self._connection, "joins", self._offer)

    def events(self) -> "Listening[Dict[str, Any]]":
        """What happens beside the messages, from now on: connections, members, changed keys, gaps, forks.

        An event is a dict: its ``type`` and what belongs to it, errors as ``StaticError``, identities as bytes.
        """
        return Listening(self, self._connection, "events", self._event)

    def close(self) -> None:
        """Ends the agent in order. What was not sent goes out at the next start; what waits gets ``closed``."""
        self._connection.close()

    def _channel(self, told: Mapping[str, Any]) -> Channel:
        """The same channel is always the same object."""
        with self._lock:
            known = self._channels.get(told["on"])
            if known is None:
                known = self._channels[told["on"]] = Channel(self, self._connection, told)
            return known

    def _offer(self, told: Mapping[str, Any]) -> JoinOffer:
        def accept() -> Channel:
            return self._channel(self._connection.call("accept", on=told["offer"])[0])

        def decline() -> None:
            self._connection.call("decline", on=told["offer"])

        return JoinOffer(told["name"], told["channelId"], told["owner"], told["addedBy"], accept, decline)

    def _event(self, told: Mapping[str, Any]) -> Dict[str, Any]:
        event = dict(told["event"])
        if "error" in event:
            event["error"] = self._connection.error(event["error"])
        if "identity" in event:
            event["identity"] = bytes.fromhex(event["identity"])
        return event


def options_of(
    endpoint: Optional[str],
    data_dir: Optional[Path],
    api_key: Optional[str],
    api_url: Optional[str],
    ca: Optional[Path],
    traffic: Optional[str],
    offers: Optional[str],
) -> Dict[str, Any]:
    """The options as the driver knows them, without those that were not given."""
    options = {
        "endpoint": endpoint,
        "dataDir": None if data_dir is None else os.fspath(data_dir),
        "apiKey": api_key,
        "apiUrl": api_url,
        "ca": None if ca is None else os.fspath(ca),
        "traffic": traffic,
        "offers": offers,
    }
    given: Dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if api_key == "":
        given["apiKey"] = None
    return given
