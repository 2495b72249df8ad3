"""The file of a cluster: what it may say of message managers and of placement."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadSetting
from holdfast.node.clustered import cluster_settings

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
