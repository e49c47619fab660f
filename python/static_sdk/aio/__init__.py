"""The SDK for asyncio: the classes of ``static_sdk`` with coroutines instead of blocking calls.

    import asyncio
    from static_sdk.aio import StaticClient

    async def main():
        async with StaticClient("quic://localhost:4433", "./agent", "billing") as client:
            channel = await client.create_channel("acme/support/routing")
            await channel.send("hello")

    asyncio.run(main())

A client belongs to the event loop that it was connected in. All clients of a program, including those of other event
loops and of ``static_sdk``, share one driver process.

A task that waits in a call can be cancelled at any time. The cancelled operation may still take effect: a message that
was not encrypted yet is no longer sent, and a message that has not been returned stays unsettled for the next reader.
"""

from .asks import Ask
from .channel import Channel, PoisonMessages, Reading
from .client import JoinOffer, Listening, StaticClient
from .files import ReceivedFile
from .manager import StaticChannelManager

__all__ = [
    "Ask",
    "Channel",
    "JoinOffer",
    "Listening",
    "PoisonMessages",
    "Reading",
    "ReceivedFile",
    "StaticChannelManager",
    "StaticClient",
]
