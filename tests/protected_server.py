"""A real server process with users, rules and TLS, and the URLs of those who may use it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from tests.certificates import Authority, Pem
from tests.server_process import ServerProcess

ALICE = "s3cret: of/alice@?"  # everything that is special in a URL
BOB = "b0b's secret"
RULES = """
[groups]
readers = ["bob", "robot"]

[[access]]
who = "alice"
destination = "orders.secret"
actions = ["receive"]
deny = true

[[access]]
who = "alice"
destination = "orders.*"
actions = ["send", "receive"]

[[access]]
who = "alice"
destination = "made.*"
actions = ["send", "receive", "manage", "browse"]

[[access]]
who = "@readers"
destination = "orders.*"
actions = ["receive"]
"""


class ProtectedServer:
    def __init__(self, folder: Path, *options: str, is_tls: bool = True) -> None:
        self.authority = Authority(folder / "authority")
        self.robot = self.authority.issue("robot.example.com", common_name="robot")
        self.pem: Pem = self.authority.issue("localhost", "127.0.0.1")
        self.users = folder / "users.toml"
        users_file.add(self.users, "alice", hashed(ALICE))
        users_file.add(self.users, "bob", hashed(BOB))
        users_file.add(self.users, "robot", "", "robot.example.com")
        with self.users.open("a") as file:
            file.write(RULES)
        certificate, key = map(str, self.pem)
        secured = ("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", str(self.authority.file))
        self._is_tls = is_tls
        self.process = ServerProcess(folder / "data", "--users", str(self.users), *(secured if is_tls else ()), *options)

    def __enter__(self) -> ProtectedServer:
        self.process.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.__exit__(*exc)

    def url(self, user: str = "", password: str = "", certificate: Pem | None = None) -> str:
        """The URL of a user; the special characters of the password are written as they must be."""
        who = f"{user}:{quote(password, safe='')}@" if password else f"{user}@" if user else ""
        place = f"{who}127.0.0.1:{self.process.port}"
        if not self._is_tls:
            return f"holdfast://{place}"
        shown = f"&certificate={certificate.certificate}&key={certificate.key}" if certificate else ""
        return f"holdfasts://{place}?ca={self.authority.file}{shown}"

    @property
    def alice(self) -> str:
        return self.url("alice", ALICE)

    @property
    def bob(self) -> str:
        return self.url("bob", BOB)
