"""Files, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import os
import unittest
from pathlib import Path
from typing import List, Tuple

from static_sdk import SentFile, StaticError, aio

from . import support
from .support import channel_of, client, failure, new_directory, options

BYTES = bytes(range(251)) * 5000


def setUpModule() -> None:
    support.keep_driver()


class FilesTest(unittest.TestCase):
    def test_a_file_is_sent_listed_saved_read_and_dropped(self) -> None:
        directory = Path(new_directory())
        source = directory / "sent.bin"
        source.write_bytes(BYTES)
        with client(b"alice") as alice:
            with client(b"bob", str(directory / "bob")) as bob:
                a, b = channel_of(alice, bob)
                seen: List[Tuple[int, int]] = []
                sent = a.send_file(source, type="text/plain", text="read this", progress=lambda *done: seen.append(done))
                self.assertIsInstance(sent, SentFile)
                self.assertEqual(seen[-1], (len(BYTES), len(BYTES)))
                for envelope in b.envelopes():
                    self.assertEqual(envelope.text(), "read this")
                    file = envelope.file
                    assert file is not None
                    self.assertEqual((file.id, file.name, file.safe_name), (sent.file_id, "sent.bin", "sent.bin"))
                    self.assertEqual((file.type, file.size, file.index), ("text/plain", len(BYTES), sent.index))
                    self.assertEqual(b"".join(file.stream()), BYTES)
                    envelope.settle()
                    break
                for piece in file.stream():
                    self.assertEqual(piece, BYTES[: len(piece)])
                    break

                def stop(done: int, size: int) -> None:
                    raise ValueError("enough")

                with self.assertRaisesRegex(ValueError, "enough"):
                    a.send_file(source, progress=stop)
                self.assertEqual(failure(a.send_file, directory).code, "invalid_request")
                self.assertRaises(TypeError, a.send_file, b"bytes")
                a.send("no file")
                for envelope in b.envelopes():
                    self.assertIsNone(envelope.file)
                    envelope.settle()
                    break
                name = b.name
            # After a restart.
            with client(b"bob", str(directory / "bob")) as bob:
                b = bob.channel(name)
                (listed,) = b.files()
                self.assertEqual((listed.id, listed.sender.identity), (sent.file_id, b"alice"))
                saved = listed.save(directory)
                self.assertEqual((os.path.basename(saved), Path(saved).read_bytes()), ("sent-2.bin", BYTES))
                self.assertEqual(b.files(), [])
                self.assertEqual(failure(listed.drop).code, "file_expired")
                again = a.send_file(source)
                a.delete_file(again.file_id)
                for envelope in b.envelopes():
                    assert envelope.file is not None
                    self.assertEqual(failure(envelope.file.save, directory / "x").code, "file_expired")
                    break


class AioFilesTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_file_is_sent_saved_read_and_dropped(self) -> None:
        directory = Path(new_directory())
        source = directory / "sent.bin"
        source.write_bytes(BYTES)
        async with aio.StaticClient(**options(b"alice")) as alice, aio.StaticClient(**options(b"bob")) as bob:
            a = await alice.create_channel(support.new_name())
            b = await bob.join_channel(a.name, await a.add_member(await bob.generate_key_package()))
            seen: List[Tuple[int, int]] = []
            for _ in range(2):
                await a.send_file(source, name="../evil", progress=lambda *done: seen.append(done))
            self.assertEqual(seen[-1], (len(BYTES), len(BYTES)))
            first, second = await both(b)
            self.assertEqual((first.name, first.safe_name), ("../evil", "_evil"))
            self.assertEqual(b"".join([piece async for piece in first.stream()]), BYTES)
            saved = await first.save(str(directory) + "/")
            self.assertEqual((os.path.basename(saved), Path(saved).read_bytes()), ("_evil", BYTES))
            await second.drop()
            self.assertEqual(await b.files(), [])
            task = asyncio.create_task(a.send_file(source))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaises(StaticError):
                await second.drop()


async def both(channel: aio.Channel) -> List[aio.ReceivedFile]:
    """The files of the next two messages."""
    files: List[aio.ReceivedFile] = []
    async for envelope in channel.envelopes():
        assert envelope.file is not None
        files.append(envelope.file)
        envelope.settle()
        if len(files) == 2:
            break
    return files
