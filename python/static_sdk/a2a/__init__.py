"""A2A over a channel, for ``a2a-sdk`` (1.x): both sides of the binding in docs/a2a-binding.md, for asyncio.

``pip install a2a-sdk`` installs what it needs, with Python 3.10 or newer. ``static_sdk`` itself does not import it.
"""

from __future__ import annotations

try:
    import a2a.types  # noqa: F401
    import httpx  # noqa: F401
except ImportError as error:
    raise ImportError("static_sdk.a2a needs a2a-sdk 1.x. Install it with: pip install 'a2a-sdk>=1,<2'") from error

from ._envelope import A2A_BINDING
from ._serve import STATE_REDELIVERED_KEY, STATE_REQUEST_ID_KEY, a2a_interface, serve_a2a
from ._transport import a2a_transport

__all__ = [
    "A2A_BINDING",
    "STATE_REDELIVERED_KEY",
    "STATE_REQUEST_ID_KEY",
    "a2a_interface",
    "a2a_transport",
    "serve_a2a",
]
