"""Fixtures of the contract suites: every kind of channel, one NATS server and one cluster of them for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.contract import in_check, over_cluster, over_managers
from tests.contract.channels import InMemory, Kind, OnJetStream, OnJournal
from tests.nats_server import NatsCluster, NatsServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        over_managers.mark(item)
        over_cluster.mark(item)
        in_check.mark(item)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, nats_server: NatsServer) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("nodes"), [nats_server]) as processes:
        yield processes


@pytest.fixture(scope="module")
def managed_cluster(tmp_path_factory: pytest.TempPathFactory, nats_server: NatsServer) -> Iterator[ClusterProcesses]:
    managers = {"m1": ("a", "b"), "m2": ("b", "a")}
    with ClusterProcesses(tmp_path_factory.mktemp("nodes"), [nats_server], managers=managers) as processes:
        yield processes


def _kind(name: str, request: pytest.FixtureRequest, folder: Path) -> Kind:
    match name:
        case "memory":
            return InMemory()
        case "journal":
            return OnJournal(folder / "journal")
        case "jetstream":
            return OnJetStream([request.getfixturevalue("nats_server")])
        case _:
            return OnJetStream(request.getfixturevalue("nats_cluster").servers)


@pytest.fixture(params=effort.cases(["memory", "journal", "jetstream"], long=["jetstream-r3"]))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """A kind of channel, with a place of its own for this test."""
    return _kind(request.param, request, tmp_path)


@pytest.fixture(params=effort.cases(["journal", "jetstream"], long=["jetstream-r3"]))
def lasting_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """The kinds that outlive their process. A channel in memory does not, by nature."""
    return _kind(request.param, request, tmp_path)
