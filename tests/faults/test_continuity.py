"""A bank goes on whatever fails: no request fails, every deposit counts once, and all current servers are equal at the end."""

from __future__ import annotations

import shutil
import signal
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast import blocking
from tests import effort
from tests.faults.running_bank import ACCOUNTS, Bank, answers, check, clients, running_bank, until_more
from tests.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with running_bank(tmp_path_factory.mktemp("bank")) as made:
        yield made


@pytest.fixture
def bank(shared: Bank, request: pytest.FixtureRequest) -> Bank:
    """The bank that most tests share. Each has accounts of its own, and leaves all servers current and equal."""
    number = zlib.crc32(request.node.name.encode())
    shared.accounts = tuple(f"{name}-{number}" for name in ACCOUNTS)
    return shared


def test_a_server_that_hangs_costs_no_request_and_is_equal_again_once_it_goes_on(bank: Bank) -> None:
    with clients(bank) as made:
        until_more(made)
        bank.servers["a"].signal(signal.SIGSTOP)
        until_more(made, 100)
        bank.servers["a"].signal(signal.SIGCONT)

    check(bank, made, "a", "b", "c")


def test_a_server_that_is_killed_in_a_call_costs_no_request_and_catches_up_when_it_is_back(bank: Bank) -> None:
    with clients(bank) as made:
        for _ in range(effort.rounds(short=2, long=10)):
            until_more(made)
            bank.servers["a"].kill()
            until_more(made)
            bank.servers["a"].start()
            until_past_its_call(bank, "a")

    check(bank, made, "a", "b", "c")


def until_past_its_call(bank: Bank, name: str) -> None:
    """Wait until a server that was killed in a call has answered it: one that dies twice in the same call is taken to die of it,
    and is called no more (continuity rule 14). That call changes its state once at most: the second change is a later one."""
    for _ in range(2):
        wait_until(partial(answers, bank.ports[name]), f"{name} answers")
        before = bank.digest(name)
        wait_until(lambda before=before: bank.digest(name) != before, f"{name} is called")  # type: ignore[misc]


def test_a_server_that_lost_its_state_is_made_anew_from_the_history(bank: Bank) -> None:
    with clients(bank) as made:
        until_more(made)
        bank.servers["a"].kill()
        assert bank.listeners["a"].stop() == 0
        lose_state(bank, "a")
        until_more(made)
        bank.servers["a"].start()
        bank.listeners["a"].start()

    check(bank, made, "a", "b", "c")


def lose_state(bank: Bank, name: str) -> None:
    """Nothing is left: not the server's files, nor its listener's store, nor the subscription, which an operator deletes."""
    for file in bank.folder.glob(f"{name}.sqlite*"):
        file.unlink()
    shutil.rmtree(bank.folder / f"store-{name}")
    with blocking.connect(bank.holdfast.url) as client:
        client.delete_subscription("domain.bank.requests", f"server.{name}", force=True)


def test_a_slow_server_lags_and_is_equal_in_the_end(bank: Bank) -> None:
    bank.servers["a"].kill()
    bank.servers["a"].start_with(*bank.server_options("a", "--slow", "0.2"))
    with clients(bank) as made:
        until_more(made, 40)
        bank.servers["a"].kill()
        bank.servers["a"].start_with(*bank.server_options("a"))

    check(bank, made, "a", "b", "c")


def test_a_listener_killed_in_a_call_loses_and_doubles_nothing(bank: Bank) -> None:
    with clients(bank) as made:
        for turn in range(effort.rounds(short=3, long=30)):
            name = "abc"[turn % 3]
            until_more(made)
            bank.listeners[name].kill()
            until_more(made)
            bank.listeners[name].start()

    check(bank, made, "a", "b", "c")


def test_an_engine_that_is_killed_costs_its_clients_a_retry_and_doubles_nothing(bank: Bank) -> None:
    with clients(bank) as made:
        for turn in range(effort.rounds(short=2, long=20)):
            until_more(made, 20)
            bank.engines[turn % 2].kill()
            until_more(made, 20)
            bank.engines[turn % 2].start()
            wait_until(partial(answers, bank.engine_ports[turn % 2]), "the engine is back")

    assert sum(each.retries for each in made) > 0
    check(bank, made, "a", "b", "c")


def test_holdfast_killed_and_started_again_loses_and_doubles_nothing(bank: Bank) -> None:
    with clients(bank) as made:
        for _ in range(effort.rounds(short=1, long=10)):
            until_more(made, 20)
            bank.holdfast.kill()
            bank.holdfast.start()
            until_more(made, 20)

    check(bank, made, "a", "b", "c")


def test_engine_and_listener_end_in_good_order_although_holdfast_is_away(bank: Bank) -> None:
    bank.holdfast.kill()

    codes = [bank.engines[0].stop(), bank.listeners["a"].stop()]

    assert codes == [0, 0], bank.logs()
    bank.holdfast.start()
    bank.engines[0].start()
    bank.listeners["a"].start()
    bank.until_ready()


def test_a_link_cut_between_a_listener_and_an_engine_or_holdfast_loses_and_doubles_nothing(bank: Bank) -> None:
    with clients(bank) as made:
        for _ in range(effort.rounds(short=1, long=10)):
            for link in (*bank.answer_links, bank.holdfast_link):
                until_more(made, 20)
                link.cut()
                until_more(made, 20)
                link.mend()

    check(bank, made, "a", "b", "c")


def test_everything_killed_and_started_again_at_once_loses_and_doubles_nothing(bank: Bank) -> None:
    with clients(bank) as made:
        for _ in range(effort.rounds(short=1, long=5)):
            until_more(made, 20)
            bank.kill()
            bank.holdfast.kill()
            bank.holdfast.start()
            bank.start()
            until_more(made, 20)

    check(bank, made, "a", "b", "c")


def test_a_lying_server_is_named_by_the_majority_and_taken_out(tmp_path: Path) -> None:
    with running_bank(tmp_path) as bank:
        with clients(bank) as made:
            until_more(made)
            bank.servers["a"].kill()
            bank.servers["a"].start_with(*bank.server_options("a", "--lie"))
            until_more(made, 40)
            wait_until(lambda: bank.states().get("a") == "removed", "the liar is taken out")  # once it was current for a while

        check(bank, made, "b", "c")
