"""The client's end: the JSON-RPC transport of ``a2a-sdk``, with requests in a channel instead of HTTP."""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Callable, Dict, Mapping

import httpx
from a2a.client.client import ClientConfig
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.types import AgentCard
from a2a.utils.constants import PROTOCOL_VERSION_CURRENT, VERSION_HEADER

from .._asking import Answer
from ..aio import Ask, Channel
from ..errors import make_error
from ._envelope import decode_response, encode_envelope

_TIMEOUT = 86_400
#: Headers that HTTP needs and a channel does not. All others are service parameters.
_HTTP_ONLY = {
    "accept",
    "accept-encoding",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
}


def a2a_transport(
    channel: Channel, *, to: str, timeout: float = _TIMEOUT
) -> Callable[[AgentCard, str, ClientConfig], JsonRpcTransport]:
    """A transport for the ``ClientFactory`` of ``a2a-sdk``: its calls go to a member of a channel.

    ``to`` is the agent id of the member. A call waits for ``timeout`` seconds, by default a day, while the member is
    offline. It raises the errors of the JSON-RPC transport, and a ``StaticError`` if the request fails
    (``ask_timeout``, ``too_large``, ``not_found``).
    """

    def produce(card: AgentCard, url: str, config: ClientConfig) -> JsonRpcTransport:
        # A request ends by `timeout`, unless its call context has another one.
        client = httpx.AsyncClient(
            transport=_ChannelTransport(channel, to, timeout),
            headers={VERSION_HEADER: PROTOCOL_VERSION_CURRENT},
            timeout=None,
            trust_env=False,
        )
        # `url` names the channel, which httpx does not know as an address.
        return JsonRpcTransport(client, card, "http://channel.invalid/")

    return produce


class _ChannelTransport(httpx.AsyncBaseTransport):
    """Sends the body of each HTTP request as a request in the channel."""

    def __init__(self, channel: Channel, to: str, timeout: float) -> None:
        self._channel = channel
        self._to = to
        self._timeout = timeout

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = json.loads(await request.aread())
        parameters = {name: value for name, value in request.headers.items() if name.lower() not in _HTTP_ONLY}
        timeout = request.extensions.get("timeout", {}).get("read") or self._timeout
        ask = await self._channel.ask(encode_envelope(parameters, call), to=self._to, timeout=timeout)
        try:
            first = await _next(ask, call)
        except StopAsyncIteration:
            raise make_error("ask_failed", f"Agent {self._to} sent no answer.") from None
        if "error" not in first and request.headers.get("accept") == "text/event-stream":
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Events(ask, call, first))
        await ask.close()
        return httpx.Response(200, json=first)


class _Events(httpx.AsyncByteStream):
    """Answers as the events that the JSON-RPC transport reads. Leaving the stream early cancels the request."""

    def __init__(self, ask: Ask, call: Mapping[str, Any], first: Dict[str, Any]) -> None:
        self._ask = ask
        self._call = call
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        response = self._first
        while True:
            name = "event: error\n" if "error" in response else ""
            # In ASCII: hosts of lines may take other characters for line breaks.
            yield f"{name}data: {json.dumps(response)}\n\n".encode("ascii")
            try:
                response = await _next(self._ask, self._call)
            except StopAsyncIteration:
                return

    async def aclose(self) -> None:
        await self._ask.close()


async def _next(ask: Ask, call: Mapping[str, Any]) -> Dict[str, Any]:
    """The next response. After an invalid one, nothing more is read. Raises ``StopAsyncIteration`` at the end."""
    answer = await ask.__anext__()
    try:
        return decode_response(_payload(answer), call)
    except Exception:
        await ask.close()
        raise


def _payload(answer: Answer) -> bytes:
    """The payload of an answer. Its size limit comes from the channel, not from A2A, so it has its own error."""
    if answer.error_code == "too_large" and answer.error is not None:
        raise make_error("too_large", answer.error.message, cause=answer.error)
    return answer.payload
