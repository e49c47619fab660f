"""The driver process. All clients of a program share one, which exits with the last of them or with the program.

Each client has its own connection to it, over a Unix socket in a directory that only this user can access. This process
creates the socket and the driver inherits it, so that a client can connect before the driver is ready.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import deque
from typing import Deque, Dict, List, Optional, Sequence, Set, Tuple

from ._driver import driver_environment
from .errors import make_error

#: How long the driver may take to shut down, in seconds.
CLOSE_SECONDS = 10.0
#: How long a driver may take to exit, in seconds, if that is why it closed a connection.
DEATH_SECONDS = 2.0
#: Paths of Unix sockets are limited to 104 bytes on some systems, 108 on others.
_LONGEST_PATH = 100
#: Clients that connect while the driver starts.
_BACKLOG = 4096


class DriverProcess:
    """A running driver."""

    def __init__(self, command: Sequence[str]) -> None:
        self.leases: Set["Lease"] = set()
        self._parent = os.getpid()
        self._directory = _private_directory()
        self.path = os.path.join(self._directory, "driver")
        self._lifeline = -1
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(self.path)
                listener.listen(_BACKLOG)
                self._process = self._start(command, listener.fileno())
        except BaseException:
            self.end()
            raise
        _running.add(self)

    def _start(self, command: Sequence[str], listener: int) -> "subprocess.Popen[bytes]":
        child_input, self._lifeline = os.pipe()
        try:
            # In its own session: a terminal sends Ctrl-C to the whole group, and the driver must shut down cleanly.
            return subprocess.Popen(
                [*command, str(listener), self._directory],
                stdin=child_input,
                stdout=subprocess.DEVNULL,
                env=driver_environment(os.environ),
                # Node does not start in a directory that is gone, and the driver should keep none from being removed.
                cwd="/",
                start_new_session=True,
                pass_fds=(listener,),
            )
        finally:
            os.close(child_input)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that started it."""
        return self._parent != os.getpid()

    def exit_code(self) -> Optional[int]:
        """The exit code, negative for a signal; None while it runs."""
        code = self._process.poll()
        if code is not None:
            _running.discard(self)
        return code

    def wait(self, seconds: float) -> Optional[int]:
        """Waits until it has exited. Returns the exit code; None if it is still running."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.exit_code()

    def wait_or_kill(self) -> None:
        """Waits until it has exited, and kills it if that takes too long."""
        if self.wait(CLOSE_SECONDS) is None:
            self.kill()
            self._process.wait()

    def end(self) -> None:
        """Asks it to exit, without waiting for it."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        shutil.rmtree(self._directory, ignore_errors=True)

    def kill(self) -> None:
        """Kills it. Its clients get an error."""
        self._process.kill()

    def forked(self) -> None:
        """In a forked process: forgets it, so that it exits with the process that started it."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        # It is not a child of this process, which therefore must not wait for it.
        self._process.returncode = 0


class Lease:
    """The right of one client to use a driver."""

    def __init__(self, driver: DriverProcess) -> None:
        self.driver = driver

    @property
    def is_alone(self) -> bool:
        """Whether no other client uses the driver."""
        return self.driver.leases <= {self}

    def give_back(self) -> bool:
        """Ends the lease. Returns whether the driver was asked to exit because this was the last one."""
        if self.driver.is_forked:
            return False
        with _lock:
            is_last = _release(self)
        _sweep()
        return is_last

    def drop(self) -> None:
        """Like ``give_back``. Waits for no lock: a finalizer may call it."""
        if not self.driver.is_forked:
            _dropped.append(self)
            _sweep()


def dial(command: Sequence[str]) -> Tuple[Lease, socket.socket]:
    """Connects to the driver with this command, and starts it if it is not running."""
    for is_last_try in (False, True):
        lease = _lease(command)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(lease.driver.path)
            return lease, connection
        except BaseException as error:
            connection.close()
            _retire(lease.driver)
            if lease.give_back():
                lease.driver.wait_or_kill()
            # It has just exited, or something deleted its socket. Start another one.
            if isinstance(error, OSError) and not is_last_try:
                continue
            raise
    raise make_error("internal_error", "No driver was started.")


_lock = threading.Lock()
#: The drivers that new clients use, by their commands.
_current: Dict[Tuple[str, ...], DriverProcess] = {}
#: All started drivers that have not been seen to exit.
_running: Set[DriverProcess] = set()
#: Leases that finalizers ended.
_dropped: Deque[Lease] = deque()


def _lease(command: Sequence[str]) -> Lease:
    key = tuple(command)
    with _lock:
        # Reaps drivers whose clients were garbage-collected, because nothing else waits for them.
        for ended in list(_running):
            ended.exit_code()
        driver = _current.get(key)
        if driver is None or driver.exit_code() is not None:
            driver = _current[key] = DriverProcess(command)
        lease = Lease(driver)
        driver.leases.add(lease)
    _sweep()
    return lease


def _retire(driver: DriverProcess) -> None:
    """Keeps a driver for its existing clients, but not for new ones."""
    with _lock:
        _forget(driver)


def _forget(driver: DriverProcess) -> None:
    for key in [key for key, current in _current.items() if current is driver]:
        del _current[key]


def _release(lease: Lease) -> bool:
    leases = lease.driver.leases
    if lease not in leases:
        return False
    leases.remove(lease)
    if leases:
        return False
    _forget(lease.driver)
    lease.driver.end()
    return True


def _sweep() -> None:
    """Ends dropped leases, unless another thread holds the lock and will do so afterwards."""
    while _dropped and _lock.acquire(blocking=False):
        try:
            while _dropped:
                _release(_dropped.popleft())
        finally:
            _lock.release()


def _private_directory() -> str:
    directory = tempfile.mkdtemp(prefix="static-")
    if len(os.fsencode(directory)) <= _LONGEST_PATH - len("/driver"):
        return directory
    os.rmdir(directory)
    return tempfile.mkdtemp(prefix="static-", dir="/tmp")


def _end_all() -> None:
    running: List[DriverProcess] = list(_running)
    for driver in running:
        driver.end()
    for driver in running:
        driver.wait_or_kill()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for driver in list(_running):
        driver.forked()
    _running.clear()
    _current.clear()
    _dropped.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
