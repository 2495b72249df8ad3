"""The greeting: who is at the other end of a link, from its Hello to its Welcome.

    Hello ──▶ version and client ──▶ login, where there are users ──▶ Welcome
                                       └──▶ Goodbye

A session has the user and the rights of the link over which it was opened.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.access.access_list import Rights
from holdfast.access.users import User, Users
from holdfast.errors import HoldfastError, ProtocolError, Unavailable
from holdfast.node.login.login import Attempt, Outcome
from holdfast.session.session import owned
from holdfast.wire import frame
from holdfast.wire.conversation import choose_version
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.clients.client_link import ClientLink
    from holdfast.node.clients.client_manager import ClientManager

CLIENT_LENGTH_MAX = 64


class Greeting:
    def __init__(self, client_link: ClientLink, link: Link, manager: ClientManager) -> None:
        self.client = ""
        self.rights: Rights | None = None  # everything is allowed where there are no users
        self._client_link = client_link
        self._link = link
        self._manager = manager
        self._user: User | None = None
        self._attempt: Attempt | None = None
        self._is_welcome = False

    @property
    def user_name(self) -> str:
        """ "" where there are no users."""
        return self._user.name if self._user is not None else ""

    @property
    def client_of_user(self) -> str:
        """The client's id with its user: the same id of another user is another client. "" for a client without an id."""
        return owned(self.client, self.user_name) if self.client else ""

    def hear(self, hello: frame.Hello) -> None:
        version = choose_version(hello)
        if len(hello.client) > CLIENT_LENGTH_MAX:
            raise ProtocolError(f"a client's id has at most {CLIENT_LENGTH_MAX} characters, not {len(hello.client)}")
        self.client = hello.client
        if self._manager.login is None:
            self._welcome(version)
            return
        self._attempt = Attempt(hello, self._link.peer, self._link.certificate_names, partial(self._decided, version))
        self._manager.login.begin(self._attempt)

    def _decided(self, version: int, outcome: Outcome) -> None:
        self._attempt = None
        if self._client_link.is_ended:
            return
        if isinstance(outcome, HoldfastError):
            self._client_link.end(outcome)
            return
        assert self._manager.login is not None
        self._user = outcome
        self.rights = self._manager.login.users.access.of(outcome.name)
        self._welcome(version)

    def _welcome(self, version: int) -> None:
        settings = self._manager.settings
        limits = (frame.FRAME_BYTES_MAX, settings.heartbeat_ms, settings.window)
        manager = self._manager
        has_users = manager.login is not None
        told = (manager.incarnation, has_users, [name for name in manager.managers if name])
        local, heard_from = ("", "") if has_users else (manager.local, self._link.peer)  # a login is not asked for twice
        welcome = frame.Welcome(version, settings.name, *limits, manager.now_ms(), *told, local, heard_from)
        self._is_welcome = True
        self._link.admit()
        self._client_link.say(0, welcome)

    def users_changed(self, users: Users) -> None:
        """End the link of a user whose password or rules have changed: its client links again, and is checked anew."""
        if self._user is None or self.rights is None:
            if self._is_welcome:
                self._client_link.end(Unavailable("this server has users now; linking again"))
            return
        if users.by_name.get(self._user.name) != self._user or users.access.of(self._user.name).rules != self.rights.rules:
            self._client_link.end(Unavailable(f"what {self._user.name} may do was changed; linking again"))

    def stop(self) -> None:
        """The link is lost: a login that waits in line need not begin."""
        if self._attempt is not None and self._manager.login is not None:
            self._manager.login.hung_up(self._attempt)
