"""Private channels for software agents: the SDK for Python.

    from static_sdk import StaticClient

    with StaticClient("quic://localhost:4433", "./agent", b"billing") as client:
        channel = client.create_channel("acme/support/routing")
        channel.send(b"hello")
"""

from ._asking import Answer, ChannelRequest
from ._options import KeyFile, Passphrase, ProofFile
from ._values import (
    ChannelMember,
    Envelope,
    IssuedInvite,
    ListedMember,
    MemberProof,
    MemberReceipt,
    Ownership,
    PoisonMessage,
    Reached,
    SentFile,
    SentMessage,
    Unreached,
)
from .asks import Ask
from .channel import Channel, PoisonMessages, Reading
from .client import JoinOffer, Listening, StaticClient
from .errors import AuthError, ChannelError, MlsError, QuotaExceededError, StaticError, TransportError
from .events import Event
from .files import ReceivedFile
from .manager import StaticChannelManager

__all__ = [
    "Answer",
    "Ask",
    "AuthError",
    "Channel",
    "ChannelError",
    "ChannelMember",
    "ChannelRequest",
    "Envelope",
    "Event",
    "IssuedInvite",
    "JoinOffer",
    "KeyFile",
    "ListedMember",
    "MemberProof",
    "Listening",
    "MlsError",
    "Ownership",
    "Passphrase",
    "ProofFile",
    "PoisonMessage",
    "PoisonMessages",
    "QuotaExceededError",
    "Reading",
    "MemberReceipt",
    "Reached",
    "ReceivedFile",
    "SentFile",
    "SentMessage",
    "Unreached",
    "StaticChannelManager",
    "StaticClient",
    "StaticError",
    "TransportError",
    "__version__",
]

__version__ = "0.1.0"
