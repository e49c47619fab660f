"""Files of other members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, List, Mapping, Optional, Union

from ._connection import Answer, Connection
from ._values import Arrival, Envelope, FileFacts, absolute, envelope_fields, file_fields
from .errors import StaticError

#: Called with the bytes that are done, and the size of the file.
Progress = Callable[[int, int], Any]


@dataclass(frozen=True)
class ReceivedFile(FileFacts):
    """A file that a member has sent. Nothing of it is fetched before you ask for it."""

    _connection: Connection = field(repr=False, compare=False)
    _on: Union[int, str] = field(repr=False, compare=False)
    #: Keeps the client alive.
    _keep: object = field(repr=False, compare=False)

    def save(self, path: object, *, progress: Optional[Progress] = None) -> str:
        """Saves the file under a new path, or under its safe name in a directory. Returns the path.

        Until all of it is there, it is ``PATH.part`` beside it. Every part is checked against the signature of the sender
        before it is written. An interrupted call continues with the same path, even after a restart. Raises
        ``file_corrupt``, ``file_expired``, ``invalid_request`` if the path exists or cannot be written, ``not_allowed``,
        ``files_unavailable`` or ``rate_limited``.
        """
        told, _ = call_with_progress(
            self._connection, "saveFile", progress, on=self._on, index=self.index, path=absolute(path)
        )
        return str(told)

    def stream(self) -> Iterator[bytes]:
        """The bytes of the file in order, each part checked. The file stays until it is dropped. Raises as ``save``."""
        reading, _ = self._connection.call("readFile", on=self._on, index=self.index)
        is_over = False
        try:
            while True:
                is_over, data = self._connection.call("nextBytes", on=self._on, reading=reading)
                if is_over:
                    return
                yield data
        finally:
            if not is_over and not self._connection.is_over:
                self._connection.begin("leaveFile", on=self._on, reading=reading)

    def drop(self) -> None:
        """Drops the file: this agent does not want it, or is done with it. Raises ``file_expired``."""
        self._connection.call("dropFile", on=self._on, index=self.index)


def call_with_progress(connection: Connection, do: str, progress: Optional[Progress], **fields: Any) -> Answer:
    """Calls and waits for the answer. What ``progress`` raises cancels the call, and is raised in its place."""
    raised: List[BaseException] = []

    def hear(header: Mapping[str, Any], data: bytes) -> None:
        if progress is None or raised:
            return
        try:
            progress(header["bytes"], header["size"])
        except BaseException as error:
            raised.append(error)
            connection.say("cancel", call=header["call"])

    call = connection.begin_hearing(do, hear, lambda: None, **fields)
    try:
        return call.wait()
    except KeyboardInterrupt:
        connection.say("cancel", call=call.number)
        raise
    except StaticError:
        if raised:
            raise raised[0]
        raise


def files_of(keep: object, connection: Connection, on: Union[int, str]) -> List[ReceivedFile]:
    """The files of a channel that are neither saved nor dropped."""
    told, _ = connection.call("files", on=on)
    return [ReceivedFile(**file_fields(each, each), _connection=connection, _on=on, _keep=keep) for each in told]


def envelope_of(arrival: Arrival) -> Envelope:
    """Converts an arrival to an envelope."""
    header = arrival.header
    told = header.get("file")
    if told is None:
        return Envelope(**envelope_fields(arrival))
    inbox: Any = arrival.settlement.inbox
    file = ReceivedFile(
        **file_fields(told, header), _connection=inbox.connection, _on=header["on"], _keep=arrival.settlement
    )
    return Envelope(**envelope_fields(arrival), file=file)
