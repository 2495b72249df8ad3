"""A cluster on a NATS server that asks for TLS and a login, configured as docs/cluster.md shows it."""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nats
import pytest

import holdfast
from holdfast.bus.nats.connection import NatsConnection
from holdfast.errors import BadSetting, Unreachable
from tests.certificates import Authority
from tests.command import run_holdfast
from tests.nats_server import FORGOTTEN_SOCKETS, NatsServer, forgotten_sockets
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text()
PASSWORD = "s3cret-of-holdfast"
OTHER = "s3cret-of-a-program"


class Protected(NamedTuple):
    server: NatsServer
    authority: Authority
    folder: Path

    def settings(self, name: str, **changed: str) -> Path:
        """The file of a cluster whose nodes log in."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "nats-password").write_text(changed.get("password", PASSWORD))
        (folder / "nats-password").chmod(0o600)
        file = folder / "cluster.toml"
        file.write_text(
            f'name = "{name}"\nnats = ["{self.server.url}"]\nmonitors = ["{self.server.monitor}"]\nreplicas = 1\n'
            'size_mib = 256\nreserve_mib = 4\nupkeep_mib = 16\n[managers]\nm1 = ["a"]\n[nats_login]\nuser = "holdfast"\n'
            f'password_file = "nats-password"\nca = "{changed.get("ca", self.authority.file)}"\n'
        )
        return file


def accounts() -> str:
    (shown,) = re.findall(r"^accounts \{.*?^\}", PAGE, re.DOTALL | re.MULTILINE)
    return str(shown)


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    folder = tmp_path_factory.mktemp("protected")
    authority = Authority(folder / "authority")
    with pytest.MonkeyPatch.context() as environment, forgotten_sockets():
        environment.setenv("HOLDFAST_PASSWORD", PASSWORD)
        environment.setenv("PROGRAM_PASSWORD", OTHER)
        pem = authority.issue("localhost", "127.0.0.1")
        with NatsServer(folder / "nats", cluster=accounts(), tls=pem) as server:
            yield Protected(server, authority, folder)


async def test_a_node_logs_in_over_tls_and_others_cannot_reach_its_streams(protected: Protected) -> None:
    file = protected.settings("shop")
    options = ("--name", "a", "--cluster", str(file))
    with ServerProcess(protected.folder / "a", *options) as node:
        async with holdfast.connect(node.url, timeout=60) as client:
            await client.queue("orders").send(1)

            stranger = await nats.connect(
                protected.server.url,
                user="program",
                password=OTHER,
                tls=ssl.create_default_context(cafile=str(protected.authority.file)),
            )
            for subject in ("holdfast.channel.shop-m1", "$KV.holdfast-configuration-shop.essential", "hf.shop.nodes"):
                await stranger.publish(subject, b"harm", headers={"Nats-Expected-Last-Msg-Id": "harm"})
            await stranger.flush()
            await stranger.close()

            await client.queue("orders").send(2)
            async with client.queue("orders").receive() as incoming:
                assert [(await incoming.next(timeout=60)).data for _ in range(2)] == [1, 2]
            assert (await client.cluster_configuration())["is_joined"]
        said = node.log
    assert PASSWORD not in said
    assert "Permissions Violation" not in said


@pytest.mark.parametrize("wrong", ["password", "ca"])
def test_a_wrong_login_ends_a_node_at_its_start_with_a_sentence(protected: Protected, tmp_path: Path, wrong: str) -> None:
    changed = {"password": "wr0ng-secret", "ca": str(Authority(tmp_path / "other").file)}
    file = protected.settings(f"wrong-{wrong}", **{wrong: changed[wrong]})

    done = run_holdfast("serve", "--name", "a", "--cluster", str(file), "--data", str(tmp_path / "a"), "--listen", "127.0.0.1:0")

    assert done.returncode == 1
    sentences = {
        "password": "refused this login (nats: 'Authorization Violation'); check the user and the secret in [nats_login]",
        "ca": "is not to be believed (self-signed certificate in certificate chain); check `ca` in [nats_login]",
    }
    assert sentences[wrong].split(" (")[0] in done.stderr
    assert sentences[wrong].rpartition("; ")[2] in done.stderr
    assert "s3cret" not in done.stderr and "wr0ng" not in done.stderr


async def test_a_server_without_tls_is_refused_where_tls_is_asked_for(protected: Protected, tmp_path: Path) -> None:
    with NatsServer(tmp_path) as plain:
        tls = ssl.create_default_context(cafile=str(protected.authority.file))
        with pytest.raises(BadSetting, match="does not speak TLS"):
            await NatsConnection.open([plain.url], tls=tls)


async def test_one_server_that_refuses_does_not_keep_a_node_from_another(protected: Protected) -> None:
    tls = ssl.create_default_context(cafile=str(protected.authority.file))
    name = secrets.token_hex(4)
    with NatsServer(protected.folder / name, tls=protected.authority.issue("127.0.0.1")) as other:
        connection = await NatsConnection.open([protected.server.url, other.url], tls=tls, timeout_s=20)
        assert connection.is_connected
        await connection.close()


async def test_a_server_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as gone:
        url = gone.url
    with pytest.raises(Unreachable, match="can be reached"):
        await asyncio.wait_for(NatsConnection.open([url], timeout_s=0.5), 20)
