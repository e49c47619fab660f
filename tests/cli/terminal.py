"""Runs a command in a pseudo-terminal and types input as a person would.

usage: terminal.py STEPS COMMAND...   STEPS is JSON: [[wait for this text, then type this], ...]
Prints everything the terminal showed; exits with the code of the command, or 128 + the number of the signal.
"""
import json
import os
import pty
import select
import sys
import time

steps = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])

shown = b""
seen = 0
deadline = time.monotonic() + 30
while True:
    if time.monotonic() > deadline:
        os.kill(pid, 9)
        sys.stdout.buffer.write(shown + b"\n(timed out)\n")
        break
    if steps and steps[0][0].encode() in shown[seen:]:
        wanted, typed = steps.pop(0)
        seen = shown.index(wanted.encode(), seen) + len(wanted)
        os.write(terminal, typed.encode())
        continue
    ready, _, _ = select.select([terminal], [], [], 0.5)
    if not ready:
        continue
    try:
        chunk = os.read(terminal, 65536)
    except OSError:
        break
    if not chunk:
        break
    shown += chunk
sys.stdout.buffer.write(shown)
sys.stdout.flush()
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
