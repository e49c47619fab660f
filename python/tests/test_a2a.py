"""A2A over a channel with ``a2a-sdk``: both sides are its own client and server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import unittest
from typing import Any, AsyncIterator, List, Tuple

from static_sdk import StaticError, aio

from . import support
from .support import SECONDS, new_name, options

HAS_A2A = importlib.util.find_spec("a2a") is not None

if HAS_A2A:
    from a2a.client import ClientCallContext, ClientConfig, ClientFactory
    from a2a.helpers import new_task_from_user_message, new_text_message
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import (
        AgentCapabilities,
        AgentCard,
        AgentSkill,
        CancelTaskRequest,
        GetTaskRequest,
        ListTasksRequest,
        Part,
        Role,
        SendMessageRequest,
        SubscribeToTaskRequest,
        TaskState,
    )
    from a2a.utils.errors import InternalError, InvalidAgentResponseError, TaskNotFoundError

    from static_sdk.a2a import A2A_BINDING, STATE_REQUEST_ID_KEY, a2a_interface, a2a_transport, serve_a2a
    from static_sdk.a2a._envelope import decode_envelope, decode_response

    class Worker(AgentExecutor):
        """Repeats a text in pieces; waits at "wait" until its task is cancelled or the test lets it go on."""

        def __init__(self) -> None:
            self.callers: List[Tuple[str, bool]] = []
            self.go_on = asyncio.Event()

        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            call = context.call_context
            self.callers.append((call.user.user_name, call.state[STATE_REQUEST_ID_KEY] != ""))
            text = context.get_user_input()
            if text == "fail":
                raise ValueError("the worker is broken")
            task = context.current_task or new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.start_work()
            if text == "wait":
                await self.go_on.wait()
            for word in text.split():
                await updater.add_artifact([Part(text=word)])
            await updater.complete()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    def asking(text: str) -> SendMessageRequest:
        """A message of a user."""
        return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))


@unittest.skipUnless(HAS_A2A, "a2a-sdk is not installed: pip install 'a2a-sdk>=1,<2'")
class A2ATest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = await aio.StaticClient(**options(b"server"))
        self.addAsyncCleanup(self.server.close)
        self.asker = await aio.StaticClient(**options(b"asker"))
        self.addAsyncCleanup(self.asker.close)
        channel = await self.server.create_channel(new_name())
        welcome = await channel.add_member(await self.asker.generate_key_package())
        self.channel = await self.asker.join_channel(channel.name, welcome)
        self.served = channel
        self.worker = Worker()
        card = AgentCard(
            name="worker",
            description="Repeats texts",
            version="1.0.0",
            skills=[AgentSkill(id="repeat", name="Repeat", description="Repeats a text", tags=["text"])],
            supported_interfaces=[a2a_interface(channel.name, self.server.agent_id)],
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text"],
            default_output_modes=["text"],
        )
        handler = DefaultRequestHandler(self.worker, InMemoryTaskStore(), card)
        self.serving = asyncio.create_task(serve_a2a(channel, handler))
        self.addAsyncCleanup(self.stop)
        self.card = card

    async def stop(self) -> None:
        self.worker.go_on.set()
        self.serving.cancel()
        await asyncio.wait([self.serving])

    def client(self, streaming: bool = True, **wishes: Any) -> Any:
        """The client of a2a-sdk."""
        factory = ClientFactory(ClientConfig(streaming=streaming, supported_protocol_bindings=[A2A_BINDING]))
        factory.register(A2A_BINDING, a2a_transport(self.channel, to=self.server.agent_id, **wishes))
        return factory.create(self.card)

    async def answers(self, payload: Any) -> List[Any]:
        """The answers to a request that the client of a2a-sdk would not make."""
        body = payload if isinstance(payload, (str, bytes)) else json.dumps(payload)
        return [answer.json() async for answer in self.channel.ask(body, to=self.server.agent_id, timeout=SECONDS)]

    async def test_a_message_becomes_a_task_of_its_verified_sender(self) -> None:
        client = self.client(streaming=False)
        (response,) = [event async for event in client.send_message(asking("one two"))]
        task = response.task
        self.assertEqual(task.status.state, TaskState.TASK_STATE_COMPLETED)
        self.assertEqual([artifact.parts[0].text for artifact in task.artifacts], ["one", "two"])
        self.assertEqual(self.worker.callers, [(self.asker.agent_id, True)])
        self.assertEqual((await client.get_task(GetTaskRequest(id=task.id))).id, task.id)
        listed = await client.list_tasks(ListTasksRequest())
        self.assertEqual([each.id for each in listed.tasks], [task.id])
        with self.assertRaises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="none"))

    async def test_events_arrive_one_by_one_and_a_stream_can_be_left_and_joined_again(self) -> None:
        client = self.client()
        # Line breaks of Unicode are not those of events.
        text = "one\u2028more two"
        events = [event async for event in client.send_message(asking(text))]
        self.assertEqual(events[-1].status_update.status.state, TaskState.TASK_STATE_COMPLETED)
        words = [event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")]
        self.assertEqual(words, text.split())

        stream = client.send_message(asking("wait"))
        task = (await stream.__anext__()).task
        await stream.aclose()
        again = client.subscribe(SubscribeToTaskRequest(id=task.id))
        self.assertEqual((await again.__anext__()).task.id, task.id)
        self.worker.go_on.set()
        last = [event async for event in again][-1]
        self.assertEqual(last.status_update.status.state, TaskState.TASK_STATE_COMPLETED)

    async def test_a_task_is_cancelled(self) -> None:
        client = self.client()
        stream = client.send_message(asking("wait"))
        task = (await stream.__anext__()).task
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        self.assertEqual(cancelled.status.state, TaskState.TASK_STATE_CANCELED)
        await stream.aclose()

    async def test_a_call_that_is_none_gets_the_error_of_the_binding(self) -> None:
        envelope = {"parameters": {"A2A-Version": "1.0"}, "call": {"jsonrpc": "2.0", "id": 7, "method": "GetTask"}}
        deep = "[" * 100_000 + "]" * 100_000
        for payload, code, call_id in [
            (b"{", -32700, None),
            (b"\xff", -32700, None),
            ("[NaN]", -32700, None),
            ([], -32602, None),
            ({"parameters": {}, "call": 7}, -32602, None),
            ({**envelope, "parameters": {str(n): "" for n in range(65)}}, -32602, None),
            ({**envelope, "parameters": {"a": 7}}, -32602, None),
            (f'{{"parameters":{{}},"call":{{"params":{deep}}}}}', -32602, None),
            ({**envelope, "call": {**envelope["call"], "params": {"ids": list(range(5000))}}}, -32602, None),
            ({**envelope, "call": {**envelope["call"], "jsonrpc": "1.0"}}, -32602, 7),
            ({**envelope, "call": {**envelope["call"], "params": {"id": []}}}, -32602, 7),
            ({**envelope, "call": {**envelope["call"], "method": "Unknown"}}, -32601, 7),
            ({**envelope, "parameters": {"A2A-Version": "9.0"}}, -32009, 7),
            ({**envelope, "call": {**envelope["call"], "params": {}}}, -32602, 7),
            ({"parameters": {"a2a-VERSION": "1.0"}, "call": {**envelope["call"], "params": {"id": "x"}}}, -32001, 7),
        ]:
            (answer,) = await self.answers(payload)
            self.assertEqual((answer["error"]["code"], answer["id"]), (code, call_id), str(payload)[:80])

    async def test_a_member_that_lies_gets_an_error_of_the_client(self) -> None:
        await self.stop()
        call = {"id": "1", "method": "GetTask"}
        for text in [
            "{",
            "[]",
            '{"jsonrpc":"2.0","id":"2","result":{}}',
            '{"jsonrpc":"2.0","id":"1"}',
            '{"jsonrpc":"2.0","id":"1","result":null}',
            '{"jsonrpc":"2.0","id":"1","error":{"code":"x","message":""}}',
            '{"jsonrpc":"2.0","id":"1","result":{},"error":{"code":1,"message":""}}',
        ]:
            with self.assertRaises(InvalidAgentResponseError, msg=text):
                decode_response(text.encode(), call)
        decode_response(b'{"jsonrpc":"2.0","id":"1","result":null}', {**call, "method": "DeleteTaskPushNotificationConfig"})
        self.assertEqual(decode_envelope(b'{"parameters":{"A":"b"},"call":{}}').parameters, {"a": "b"})

        async def lie(request: Any) -> AsyncIterator[str]:
            yield '{"jsonrpc":"2.0","id":"another","result":{}}'

        liar = asyncio.create_task(self.served.serve(lie))
        with self.assertRaises(InvalidAgentResponseError):
            await self.client().get_task(GetTaskRequest(id="any"))
        liar.cancel()
        await asyncio.wait([liar])

    async def test_a_member_that_does_not_answer_is_not_waited_for_any_longer_than_the_call_says(self) -> None:
        await self.stop()
        with self.assertRaises(StaticError) as caught:
            await self.client(timeout=1).get_task(GetTaskRequest(id="any"))
        self.assertEqual(caught.exception.code, "ask_timeout")
        with self.assertRaises(StaticError) as caught:
            await self.client().get_task(GetTaskRequest(id="any"), context=ClientCallContext(timeout=1))
        self.assertEqual(caught.exception.code, "ask_timeout")

    async def test_a_bug_of_the_handler_says_nothing_of_itself(self) -> None:
        with self.assertLogs("static_sdk") as logs, self.assertRaises(InternalError) as caught:
            [event async for event in self.client(streaming=False).send_message(asking("fail"))]
        self.assertEqual(str(caught.exception), "Internal error")
        self.assertIn("the worker is broken", logs.output[0])
