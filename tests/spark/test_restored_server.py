"""A stream and a server that was restored from a backup: its places mean other events, and are never taken for known (E8, D1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from holdfast.errors import CheckpointMismatch
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.driver import Driver, read_targets
from holdfast.spark.source.fetcher import fetched
from holdfast.spark.source.stream_ownership import Allowance
from tests.restoring import backed_up, start_restored
from tests.server_process import ServerProcess
from tests.spark.streams import send, waiting

pytestmark = pytest.mark.slow

ALL = Allowance()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as made:
        yield made


def options(server: ServerProcess, **others: str) -> StreamOptions:
    given = {"url": server.url, "destinations": "orders", "subscription": "lake", "timeout": "10", "pollSeconds": "0.05"}
    return StreamOptions.of({**given, **others})


def test_a_checkpoint_of_before_a_restore_is_refused_and_says_how_to_go_on_e8(server: ServerProcess) -> None:
    lost = Driver(options(server))
    begin = lost.beginning()
    backed_up(server)
    send(server, "orders", range(10))
    end = lost.latest(begin, ALL)
    lost.latest(end, ALL)
    lost.close()
    start_restored(server)
    send(server, "orders", range(100, 120))

    restarted = Driver(options(server))
    with pytest.raises(CheckpointMismatch, match=r"restored from a backup since.*new checkpoint folder.*failOnDataLoss=false"):
        restarted.latest(end, ALL)
    restarted.close()
    assert waiting(server, "orders", "lake") == 20

    going_on = Driver(options(server, failOnDataLoss="false"))
    planned = going_on.latest(end, ALL)
    (piece,) = going_on.ranges(end, planned)
    going_on.close()
    target = read_targets(options(server))["orders"]
    found = list(fetched(ServerAddress.of(options(server)), target, piece.start, piece.end, incarnation=piece.incarnation))
    assert sum(each.events for each in found) == 20


def test_a_query_that_runs_while_its_server_is_restored_confirms_nothing_and_reads_nothing_by_old_places_e8(
    server: ServerProcess,
) -> None:
    running = Driver(options(server))
    begin = running.beginning()
    backed_up(server)
    send(server, "orders", range(10))
    end = running.latest(begin, ALL)
    (piece,) = running.ranges(begin, end)
    start_restored(server)
    send(server, "orders", range(100, 120))
    target = read_targets(options(server))["orders"]

    with pytest.raises(CheckpointMismatch, match="restored from a backup meanwhile"):
        list(fetched(ServerAddress.of(options(server)), target, piece.start, piece.end, incarnation=piece.incarnation))
    with pytest.raises(CheckpointMismatch, match="restored from a backup since"):
        running.latest(end, ALL)

    running.close()
    with holdfast.blocking.connect(server.url) as client:
        assert client.subscriptions("orders")[0]["waiting"] == 20
