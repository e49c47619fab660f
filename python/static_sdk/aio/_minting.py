"""Tokens for the proofs of an agent: the driver asks for one, this module runs the function of ``proof`` in a task."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Mapping, Set

from .._handling import reason_of
from .._minting import checked
from .._options import Mint
from ._connection import Connection


def mint_with(connection: Connection, function: Mint) -> None:
    """Calls the function when the driver asks, and awaits what it returns if that can be awaited."""
    tasks: Set["asyncio.Task[None]"] = set()

    async def work(token: int, audience: str) -> None:
        try:
            jwt = function(audience)
            answer = {"jwt": checked(await jwt if inspect.isawaitable(jwt) else jwt)}
        except Exception as error:
            answer = {"error": reason_of(error)}
        if not connection.is_over:
            connection.say("minted", token=token, **answer)

    def hear(header: Mapping[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work(header["token"], header["audience"]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    connection.mint = hear
