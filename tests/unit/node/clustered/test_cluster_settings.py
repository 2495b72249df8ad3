"""The file of a cluster: what it may say of message managers and of placement."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.cli.operations.serve import _check_role
from holdfast.errors import BadSetting
from holdfast.node.clustered import cluster_settings
from holdfast.node.clustered.cluster_settings import ClusterSettings, check_role
from holdfast.node.settings import Role

SERVERS = 'name = "shop"\nnats = ["nats://h1:4222"]\nmonitors = ["http://h1:8222"]\nreplicas = 1\n'
MANAGERS = '[managers]\nm1 = ["h1", "h2"]\nm2 = ["h2", "h3"]\n'


def read(tmp_path: Path, text: str) -> cluster_settings.ClusterSettings:
    file = tmp_path / "cluster.toml"
    file.write_text(SERVERS + text)
    return cluster_settings.read(file)


def test_several_managers_and_rules_of_placement_in_their_order(tmp_path: Path) -> None:
    found = read(tmp_path, f'{MANAGERS}[placement]\n"billing.eu" = "m1"\n"billing.*" = "m2"\n')

    assert found.managers == {"m1": ("h1", "h2"), "m2": ("h2", "h3")}
    assert [(rule.pattern.text, rule.manager) for rule in found.rules] == [("billing.eu", "m1"), ("billing.*", "m2")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[managers]\n", "names no message manager"),
        ("[managers]\nm1 = []\n", "needs one node"),
        (f'{MANAGERS}[placement]\n"a" = "m9"\n', "there is no manager 'm9'"),
        (f'{MANAGERS}[placement]\n"a b" = "m1"\n', "cluster.toml: "),
        (f'{MANAGERS}[placements]\n"a" = "m1"\n', "unknown field"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSetting, match=problem):
        read(tmp_path, text)


# --- roles ---------------------------------------------------------------------------------------------------------------

CLUSTER = ClusterSettings(
    name="shop", managers={"m1": ("a", "b")}, nats=JetStreamSettings(servers=("nats://h:1",), monitors=("http://h:2",))
)


@pytest.mark.parametrize(
    ("node", "role"), [("a", "both"), ("c", "both"), ("a", "message-manager"), ("c", "client-manager")]
)  # fmt: skip
def test_a_role_that_the_file_agrees_with_is_taken(node: str, role: Role) -> None:
    check_role(CLUSTER, node, role)


def test_a_role_that_contradicts_the_file_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadSetting, match=r"node a has a copy of m1 .* start it with --role both, or take it out"):
        check_role(CLUSTER, "a", "client-manager")
    with pytest.raises(BadSetting, match=r"node c has no copy .* or start it with --role client-manager"):
        check_role(CLUSTER, "c", "message-manager")


def test_a_role_is_for_nodes_of_clusters_and_programs_need_one_that_takes_clients() -> None:
    file = Path("cluster.toml")
    _check_role("both", {"--cluster": None}, {"--relay": file})
    _check_role("client-manager", {"--cluster": file}, {"--relay": file})
    with pytest.raises(BadSetting, match="--role is for a node of a cluster"):
        _check_role("client-manager", {"--cluster": None}, {})
    with pytest.raises(BadSetting, match="--relay runs a client of this node"):
        _check_role("message-manager", {"--cluster": file}, {"--actions": None, "--relay": file})
