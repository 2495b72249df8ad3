"""The document of a cluster: its settings are those that a node reads, all of them, with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.channel.jetstream.settings import MIB
from holdfast.node.clustered import cluster_settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text()


def _shown(tmp_path: Path) -> cluster_settings.ClusterSettings:
    (file,) = (text for text in re.findall(r"```toml\n(.+?)```", PAGE, re.DOTALL) if "[managers]" in text)
    (tmp_path / "cluster.toml").write_text(file)
    return cluster_settings.read(tmp_path / "cluster.toml")


def test_the_file_that_is_shown_is_read(tmp_path: Path) -> None:
    shown = _shown(tmp_path)

    assert shown.name == "shop"
    assert shown.managers == {"m1": ("h1", "h2"), "m2": ("h2", "h3")}
    assert shown.placement == (("billing.*", "m2"),)


def test_the_table_has_every_key_and_its_default(tmp_path: Path) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d*) ?\| ", PAGE, re.MULTILINE))
    nats = _shown(tmp_path).nats

    assert rows == {
        "name": "",
        "nats": "",
        "monitors": "",
        "managers": "",
        "placement": "",
        "replicas": str(nats.replicas),
        "size_mib": str(nats.size_bytes // MIB),
        "reserve_mib": str(nats.reserve_bytes // MIB),
        "upkeep_mib": str(nats.upkeep_bytes // MIB),
        "nats_login": "",
    }
    assert set(rows) == set(cluster_settings.KEYS)
