"""The server's end: the request handler of ``a2a-sdk``, with requests in a channel instead of HTTP."""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Mapping, NamedTuple, Optional, Union

from a2a.auth.user import User
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers import RequestHandler
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.types import (
    AgentInterface,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, MethodNotFoundError, TaskNotFoundError
from a2a.utils.proto_utils import to_stream_response
from a2a.utils.version_validator import validate_version
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from .._asking import ChannelRequest, warn_of_request
from .._values import MemberProof
from ..aio import Channel
from ._envelope import A2A_BINDING, NotJson, decode_envelope

#: In the ``state`` of a call's context: true if the call may already have been made, completely or in part.
STATE_REDELIVERED_KEY = "static.redelivered"
#: In the ``state`` of a call's context: the request's message id, which stays the same if the call is repeated.
STATE_REQUEST_ID_KEY = "static.requestId"

# Streams stay open for long, so an asker may have as many open as it may ask.
_CONCURRENCY = 1000
_PER_ASKER = 256


def a2a_interface(channel: str, agent_id: str) -> AgentInterface:
    """The entry of an Agent Card (``supported_interfaces``) for a member that serves A2A in a channel."""
    return AgentInterface(
        url=f"static:{channel}?agent={agent_id}",
        protocol_binding=A2A_BINDING,
        protocol_version=PROTOCOL_VERSION_1_0,
    )


async def serve_a2a(
    channel: Channel,
    request_handler: RequestHandler,
    *,
    concurrency: int = _CONCURRENCY,
    per_asker: int = _PER_ASKER,
) -> None:
    """Serves A2A to the other members of a channel, until the channel or client is closed.

    ``request_handler`` is the ``DefaultRequestHandler`` of ``a2a-sdk``, or another one. The user of each call is its
    verified sender: ``context.user.user_name`` is the agent id, and ``context.user.proof`` says who runs it. Service parameters are in ``context.state``, as headers
    are over HTTP. The Agent Card must list the binding (``a2a_interface``). Raises as ``Channel.serve``.
    """

    async def answers(request: ChannelRequest) -> AsyncIterator[str]:
        call_id: Union[str, int, None] = None
        try:
            envelope = decode_envelope(request.payload)
            call_id = _id_of(envelope.call)
            context = _context_of(request, envelope.parameters)
            async for result in _results(request_handler, envelope.call, context):
                yield json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result})
        except NotJson:
            yield json.dumps(build_error_response(None, JSONParseError()))
        except A2AError as error:
            yield json.dumps(build_error_response(call_id, error))
        except Exception as error:
            warn_of_request(channel._connection, channel.name, request, error)
            yield json.dumps(build_error_response(call_id, InternalError()))

    await channel.serve(answers, concurrency=concurrency, per_asker=per_asker)


class _Member(User):
    """The verified sender of a call."""

    def __init__(self, agent_id: str, proof: Optional[MemberProof]) -> None:
        self._agent_id = agent_id
        #: Who runs it; None if it has shown nothing.
        self.proof = proof

    @property
    def is_authenticated(self) -> bool:
        """Always: the request was signed."""
        return True

    @property
    def user_name(self) -> str:
        """The agent id."""
        return self._agent_id


def _context_of(request: ChannelRequest, parameters: Dict[str, str]) -> ServerCallContext:
    return ServerCallContext(
        user=_Member(request.sender.agent_id, request.sender.proof),
        state={
            "headers": parameters,
            STATE_REDELIVERED_KEY: request.redelivered,
            STATE_REQUEST_ID_KEY: request.message_id,
        },
        requested_extensions=get_requested_extensions([parameters.get(HTTP_EXTENSION_HEADER.lower(), "")]),
    )


@validate_version(PROTOCOL_VERSION_1_0)
async def _check_version(context: ServerCallContext) -> None:
    """Raises ``VersionNotSupportedError``."""


async def _results(
    handler: RequestHandler, call: Mapping[str, Any], context: ServerCallContext
) -> AsyncIterator[Any]:
    """The results of a call: one, or one for each event."""
    params = call.get("params", {})
    if call.get("jsonrpc") != "2.0" or not isinstance(params, dict):
        raise InvalidParamsError("Invalid JSON-RPC Request.")
    name = call.get("method")
    method = _METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise MethodNotFoundError()
    await _check_version(context)
    try:
        message = ParseDict(params, method.request(), ignore_unknown_fields=True)
    except ParseError as error:
        raise InvalidParamsError("Invalid method parameters.") from error
    context.tenant = getattr(message, "tenant", "")
    context.state["method"] = name
    if method.is_stream:
        async for event in method.make(handler, message, context):
            yield MessageToDict(to_stream_response(event))
    else:
        yield await method.make(handler, message, context)


class _Method(NamedTuple):
    request: Callable[[], Any]
    #: Gives the result, or the events.
    make: Callable[[RequestHandler, Any, ServerCallContext], Any]
    is_stream: bool = False


async def _send(handler: RequestHandler, message: Any, context: ServerCallContext) -> Any:
    sent = await handler.on_message_send(message, context)
    field = "task" if isinstance(sent, Task) else "message"
    return MessageToDict(SendMessageResponse(**{field: sent}))


async def _found(looking: "Awaitable[Any]") -> Any:
    task = await looking
    if task is None:
        raise TaskNotFoundError()
    return MessageToDict(task)


async def _shown(making: "Awaitable[Any]") -> Any:
    return MessageToDict(await making)


async def _listed(handler: RequestHandler, message: Any, context: ServerCallContext) -> Any:
    tasks = MessageToDict(await handler.on_list_tasks(message, context), always_print_fields_with_no_presence=True)
    if not message.include_artifacts:
        for task in tasks["tasks"]:
            task.pop("artifacts", None)
    return tasks


_METHODS: Mapping[str, _Method] = {
    "SendMessage": _Method(SendMessageRequest, _send),
    "SendStreamingMessage": _Method(
        SendMessageRequest, lambda on, message, context: on.on_message_send_stream(message, context), is_stream=True
    ),
    "SubscribeToTask": _Method(
        SubscribeToTaskRequest, lambda on, message, context: on.on_subscribe_to_task(message, context), is_stream=True
    ),
    "GetTask": _Method(GetTaskRequest, lambda on, message, context: _found(on.on_get_task(message, context))),
    "CancelTask": _Method(CancelTaskRequest, lambda on, message, context: _found(on.on_cancel_task(message, context))),
    "ListTasks": _Method(ListTasksRequest, _listed),
    "CreateTaskPushNotificationConfig": _Method(
        TaskPushNotificationConfig,
        lambda on, message, context: _shown(on.on_create_task_push_notification_config(message, context)),
    ),
    "GetTaskPushNotificationConfig": _Method(
        GetTaskPushNotificationConfigRequest,
        lambda on, message, context: _shown(on.on_get_task_push_notification_config(message, context)),
    ),
    "ListTaskPushNotificationConfigs": _Method(
        ListTaskPushNotificationConfigsRequest,
        lambda on, message, context: _shown(on.on_list_task_push_notification_configs(message, context)),
    ),
    "DeleteTaskPushNotificationConfig": _Method(
        DeleteTaskPushNotificationConfigRequest,
        lambda on, message, context: on.on_delete_task_push_notification_config(message, context),
    ),
    "GetExtendedAgentCard": _Method(
        GetExtendedAgentCardRequest,
        lambda on, message, context: _shown(on.on_get_extended_agent_card(message, context)),
    ),
}


def _id_of(call: Mapping[str, Any]) -> Union[str, int, None]:
    value = call.get("id")
    is_id = isinstance(value, (str, int)) and not isinstance(value, bool)
    return value if is_id else None
