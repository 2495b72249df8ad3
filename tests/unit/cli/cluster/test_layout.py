"""The layout of a cluster on one machine: made once, kept, and not changed by another `up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.cluster import layout
from holdfast.cli.cluster.nats_servers import write_settings
from holdfast.errors import BadSetting
from holdfast.node.clustered import cluster_settings

THREE = ("nats://h1:4222", "nats://h2:4222", "nats://h3:4333")


def test_a_new_layout_has_three_servers_and_nodes_each_with_ports_of_its_own(tmp_path: Path) -> None:
    made = layout.prepare(tmp_path / "new", None, None, (), ())

    ports = [node.port for node in made.nodes] + [
        p for each in made.nats for p in (each.port, each.monitor_port, each.route_port)
    ]
    assert len(made.nodes) == len(made.nats) == 3
    assert len(set(ports)) == 12
    assert set(ports) <= set(layout.PORTS)
    assert made.url == "holdfast://" + ",".join(f"127.0.0.1:{node.port}" for node in made.nodes)


def test_the_nodes_can_read_the_settings_that_are_written(tmp_path: Path) -> None:
    made = layout.prepare(tmp_path, 3, 1, (), ())

    read = cluster_settings.read(layout.cluster_file(tmp_path))

    assert read.name == made.name
    assert read.managers == {"m1": ("node1", "node2")}
    assert read.nats.servers == made.servers
    assert read.nats.monitors == made.monitors
    assert read.nats.replicas == 3


def test_managers_and_their_backups_are_spread_over_the_nodes(tmp_path: Path) -> None:
    layout.prepare(tmp_path, 3, 1, (), (), managers=4)

    read = cluster_settings.read(layout.cluster_file(tmp_path))

    assert read.managers == {
        "m1": ("node1", "node2"), "m2": ("node2", "node3"), "m3": ("node3", "node1"), "m4": ("node1", "node2"),
    }  # fmt: skip


def test_another_number_of_managers_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    layout.prepare(tmp_path, 3, 1, (), (), managers=2)

    with pytest.raises(BadSetting, match="--managers 2"):
        layout.prepare(tmp_path, None, None, (), (), managers=3)


def test_a_second_time_the_layout_is_the_same(tmp_path: Path) -> None:
    made = layout.prepare(tmp_path, 2, 0, (), ())

    assert layout.prepare(tmp_path, None, None, (), ()) == made
    assert layout.prepare(tmp_path, 2, 0, made.servers, ()) == made
    assert layout.read(tmp_path) == made


@pytest.mark.parametrize(
    ("nodes", "backups", "servers", "option"),
    [(3, None, (), "--nodes 2"), (None, 1, (), "--backups 0"), (None, None, THREE, "--nats")],
)
def test_another_number_of_nodes_in_the_same_folder_is_refused(
    tmp_path: Path, nodes: int | None, backups: int | None, servers: tuple[str, ...], option: str
) -> None:
    layout.prepare(tmp_path, 2, 0, (), ())

    with pytest.raises(BadSetting, match=option):
        layout.prepare(tmp_path, nodes, backups, servers, ())


def test_more_copies_than_nodes_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="--backups 2 needs 3 nodes"):
        layout.prepare(tmp_path / "new", 2, 2, (), ())

    assert not (tmp_path / "new").exists()


def test_one_node_alone_has_no_backup(tmp_path: Path) -> None:
    assert layout.prepare(tmp_path, 1, None, (), ()).backups == 0


def test_servers_of_others_are_used_and_none_is_started(tmp_path: Path) -> None:
    made = layout.prepare(tmp_path, None, None, THREE, ())

    assert made.nats == ()
    assert made.servers == THREE
    assert made.monitors == ("http://h1:8222", "http://h2:8222", "http://h3:8222")


def test_monitors_without_servers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="--nats"):
        layout.prepare(tmp_path, None, None, (), ("http://h1:8222",))


def test_a_folder_without_a_cluster_or_with_a_broken_layout_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="holdfast cluster up --data"):
        layout.read(tmp_path)
    layout.layout_file(tmp_path).write_text("{}")
    with pytest.raises(BadSetting, match="cannot be read"):
        layout.read(tmp_path)


def test_a_server_knows_the_routes_of_all_and_syncs_always(tmp_path: Path) -> None:
    made = layout.prepare(tmp_path, None, None, (), ())

    text = write_settings(tmp_path, made, made.nats[0]).read_text()

    assert 'sync_interval: "always"' in text
    assert "max_payload: 2MB" in text
    assert all(f"nats://127.0.0.1:{each.route_port}" in text for each in made.nats)
