"""Whose word about a stream counts: that of a leader which hears a majority of the copies."""

from __future__ import annotations

import pytest
from nats.js import api

from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.channel.jetstream.stream import HEARD_NS, is_led

THREE = JetStreamSettings(servers=("nats://n1:4222",), monitors=("http://n1:8222",))
ONE = JetStreamSettings(servers=("nats://n1:4222",), monitors=("http://n1:8222",), replicas=1)
HEARD, LATE, OFFLINE = api.PeerInfo(active=HEARD_NS), api.PeerInfo(active=HEARD_NS + 1), api.PeerInfo(active=0, offline=True)


def _info(cluster: api.ClusterInfo | None) -> api.StreamInfo:
    return api.StreamInfo(config=api.StreamConfig(), state=api.StreamState(0, 0, 0, 0, 0), cluster=cluster)


@pytest.mark.parametrize(
    ("others", "is_heard"),
    [
        ([HEARD, HEARD], True),
        ([HEARD, LATE], True),
        ([HEARD, OFFLINE], True),
        ([LATE, LATE], False),
        ([LATE, OFFLINE], False),
        ([HEARD, HEARD, LATE, LATE], True),
        ([HEARD, OFFLINE, LATE, LATE], False),
    ],
)
def test_a_leader_counts_while_it_hears_a_majority(others: list[api.PeerInfo], is_heard: bool) -> None:
    assert is_led(_info(api.ClusterInfo(leader="n1", replicas=others)), THREE) == is_heard


def test_a_copy_without_a_leader_does_not_count() -> None:
    assert not is_led(_info(api.ClusterInfo(leader=None, replicas=[HEARD, HEARD])), THREE)
    assert not is_led(_info(None), THREE)


def test_the_only_copy_counts() -> None:
    assert is_led(_info(None), ONE)
    assert is_led(_info(api.ClusterInfo(leader="n1")), ONE)
