"""Tokens for the proofs of an agent: the driver asks for one, this module calls the function of ``proof``."""

from __future__ import annotations

import threading
from typing import Any, Mapping

from ._connection import Connection
from ._handling import reason_of
from ._options import Mint


def mint_with(connection: Connection, function: Mint) -> None:
    """Calls the function when the driver asks, in a thread of its own: it may take its time."""

    def work(token: int, audience: str) -> None:
        try:
            jwt = checked(function(audience))
        except Exception as error:
            connection.say("minted", token=token, error=reason_of(error))
        else:
            connection.say("minted", token=token, jwt=jwt)

    def hear(header: Mapping[str, Any]) -> None:
        arguments = (header["token"], header["audience"])
        threading.Thread(target=work, args=arguments, name="static-proof", daemon=True).start()

    connection.mint = hear


def checked(jwt: object) -> str:
    """What the function has returned."""
    if isinstance(jwt, str):
        return jwt
    raise TypeError(f"it returned {type(jwt).__name__}, not str")
