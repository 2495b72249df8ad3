"""Configuration of a real cluster: every kind of drift is refused with both values; changes online reach all, and survive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import LoginFailed
from holdfast.node.login import users_file
from holdfast.node.login.passwords import hashed
from tests.cluster_processes import ClusterProcesses
from tests.command import run_holdfast
from tests.nats_server import NatsServer
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

RULES = '[[access]]\nwho = "alice"\ndestination = "**"\nactions = ["send", "receive", "browse", "manage"]\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("configured")
    managers = {"m1": ("a", "b"), "m2": ("b", "a")}
    with NatsServer(folder / "nats") as nats, ClusterProcesses(folder, [nats], managers=managers) as running:
        yield running


def refused(cluster: ClusterProcesses, name: str, *options: str, file: Path | None = None) -> str:
    """What a node says that does not start."""
    data = cluster.file.parent / name
    where = ("--cluster", str(file or cluster.file), "--data", str(data), "--listen", "127.0.0.1:0")
    done = run_holdfast("serve", "--name", name, *where, *options)
    assert done.returncode == 1, done.stderr
    return done.stderr


def ask(cluster: ClusterProcesses, command: str, *arguments: str) -> Any:
    done = run_holdfast("cluster", command, *arguments, "--url", cluster.url, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def test_a_node_whose_file_differs_is_refused_with_key_and_both_values(cluster: ClusterProcesses, tmp_path: Path) -> None:
    other = tmp_path / "cluster.toml"
    other.write_text(cluster.file.read_text().replace("size_mib = 256", "size_mib = 512").replace('["a", "b"]', '["b", "a"]'))

    said = refused(cluster, "c", file=other)

    assert "size_mib is 512 here and 256 in the cluster" in said
    assert "managers.m1 is b, a here and a, b in the cluster" in said
    replacing = refused(cluster, "c", "--replace-essential", file=other)
    assert "They are not replaced: a, b run with other ones; stop them first" in replacing


def test_a_node_with_another_option_is_refused_with_both_values(cluster: ClusterProcesses) -> None:
    said = refused(cluster, "c", "--session-grace-ms", "9000")

    assert "session_grace_ms is 9000 here and 2000 in the cluster" in said


async def test_a_change_online_reaches_all_nodes_and_survives_restarts_of_all(cluster: ClusterProcesses) -> None:
    told = ask(cluster, "configure", "session-grace-ms", "3000")

    assert (told["reached"], told["not_reached"]) == (["a", "b"], [])
    for node in cluster.nodes.values():
        node.stop()
    for node in cluster.nodes.values():
        node.start()
    shown = ask(cluster, "configure", "--show")
    assert shown["settings"]["session_grace_ms"] == 3_000
    assert shown["settings_version"] == told["settings_version"]

    nodes = ask(cluster, "nodes")
    assert [(each["name"], each["settings_version"], each["is_different"]) for each in nodes["nodes"]] == [
        ("a", told["settings_version"], False),
        ("b", told["settings_version"], False),
    ]
    assert nodes["silent"] == nodes["different"] == []


async def test_new_names_are_placed_by_rules_that_are_given_online(cluster: ClusterProcesses) -> None:
    async with holdfast.connect(cluster.url, timeout=60) as client, holdfast.connect(cluster.beside, timeout=60) as other:
        for manager in ("m2", "m1"):
            told = await client.configure_cluster("placement", f"billing.*={manager}")
            assert told["not_reached"] == []
            for number, each in enumerate((client, other)):
                receipt = await each.queue(f"billing.{manager}-{number}").send(1, timeout=60)
                assert receipt.channel == manager


@pytest.mark.long
async def test_a_node_that_was_away_fetches_a_change_and_is_refused_if_it_was_edited_too(cluster: ClusterProcesses) -> None:
    node = cluster.nodes["b"]
    node.stop()
    async with holdfast.connect(cluster.nodes["a"].url, timeout=60) as client:
        told = await client.configure_cluster("stage_idle_ms", "90000")
        assert (told["reached"], told["not_reached"]) == (["a"], ["b"])

        file = node.data / "acquired-settings.toml"
        copy = file.read_text()
        file.write_text(copy + "stage_idle_ms = 70000\n")
        said = refused(cluster, "b", "--session-grace-ms", "2000")
        assert "stage_idle_ms is 70000 here and 90000 in the cluster" in said

        file.write_text(copy)
        node.start()

        async def is_there() -> bool:
            rows = (await client.cluster_status())["nodes"]
            return all(row["settings_version"] == told["settings_version"] for row in rows)

        await until(is_there, "the node has fetched the change")
    assert "stage_idle_ms = 90000" in file.read_text()


async def test_users_that_are_given_online_are_asked_for_at_all_nodes_at_once_and_after_restarts(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    users = tmp_path / "users.toml"
    users_file.add(users, "alice", hashed("secret"))
    with users.open("a") as file:
        file.write(RULES)
    told = ask(cluster, "configure", "users", str(users))
    assert told["users"] == ["alice"]
    assert told["not_reached"] == []

    cluster.nodes["b"].stop()
    cluster.nodes["b"].start()
    for node in cluster.nodes.values():
        with pytest.raises(LoginFailed):
            async with holdfast.connect(node.url, timeout=60) as client:
                await client.status()
        async with holdfast.connect(node.url.replace("//", "//alice:secret@"), timeout=60) as client:
            assert (await client.cluster_configuration())["users"] == ["alice"]

    other = tmp_path / "others.toml"
    users_file.add(other, "bob", hashed("secret"))
    said = refused(cluster, "c", "--users", str(other))
    assert "(users bob; digest" in said and "users alice; digest" in said
    assert "argon2" not in said

    told = refused(cluster, "c", "--http", "127.0.0.1:0")
    assert "give --http-token-file" in told
