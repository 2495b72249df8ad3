"""A TCP link that a test can cut: connections to `port` go on to a target, until they are all reset at once.

link.cut()       resets every connection, and takes none
link.mend()      takes connections again
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

# Closing sends a reset, as a firewall that forgets would.
_RESET = struct.pack("ii", 1, 0)


class CuttableLink:
    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            return near.close()
        with self._lock:
            self._sockets |= {near, far}
            if self._is_cut:
                return self._reset()
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()
        return None

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _reset(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            self._reset()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listening.close()
