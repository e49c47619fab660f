"""Private channels for software agents: the SDK for Python.

    from static_sdk import StaticClient

    with StaticClient("quic://localhost:4433", "./agent", b"billing") as client:
        channel = client.create_channel("acme/support/routing")
        channel.send(b"hello")
"""

from .channel import Channel, ChannelMember, Envelope, PoisonMessage, PoisonMessages, Receipt
from .client import JoinOffer, StaticClient
from .errors import AuthError, ChannelError, MlsError, QuotaExceededError, StaticError, TransportError
from .manager import IssuedInvite, StaticChannelManager

__all__ = [
    "AuthError",
    "Channel",
    "ChannelError",
    "ChannelMember",
    "Envelope",
    "IssuedInvite",
    "JoinOffer",
    "MlsError",
    "PoisonMessage",
    "PoisonMessages",
    "QuotaExceededError",
    "Receipt",
    "StaticChannelManager",
    "StaticClient",
    "StaticError",
    "TransportError",
    "__version__",
]

__version__ = "0.1.0"
