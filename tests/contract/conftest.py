"""Fixtures of the contract suites: every kind of channel, and one NATS server for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import over_managers
from tests.contract.channels import InMemory, Kind, OnJetStream, OnJournal
from tests.nats_server import NatsServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        over_managers.mark(item)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(params=["memory", "journal", "jetstream"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """A kind of channel, with a place of its own for this test."""
    match request.param:
        case "memory":
            return InMemory()
        case "journal":
            return OnJournal(tmp_path / "journal")
        case _:
            return OnJetStream(request.getfixturevalue("nats_server"))


@pytest.fixture(params=["journal", "jetstream"])
def lasting_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """The kinds that outlive their process. A channel in memory does not, by nature."""
    return OnJournal(tmp_path / "journal") if request.param == "journal" else OnJetStream(request.getfixturevalue("nats_server"))
