"""Logins: one way to fail, bounded work, and nobody's loop stands still (E7)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.access import back_off, login_line
from holdfast.access.access_list import AccessList
from holdfast.access.users import User, Users
from holdfast.errors import HoldfastError, LoginFailed, Unavailable
from holdfast.node.login.login import Attempt, Login, Outcome, network_of
from holdfast.node.login.passwords import hashed
from holdfast.wire.frame import MAGIC, Hello
from tests.waiting import turn_loop

PASSWORD = "correct horse"
USERS = Users({"alice": User("alice", hashed(PASSWORD)), "robot": User("robot", certificate="robot.example.com")}, AccessList())


class Trial:
    """One attempt under way."""

    def __init__(
        self, login: Login, user: str, password: str = "", peer: str = "192.0.2.1:5", names: tuple[str, ...] = ()
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self.took_s = 0.0
        self.attempt = Attempt(Hello(MAGIC, [1], "", user, password), peer, names, self._decided)
        login.begin(self.attempt)

    def _decided(self, outcome: Outcome) -> None:
        self.took_s = self._loop.time() - self._began
        self.outcome.set_result(outcome)

    async def user(self) -> str:
        outcome = await self.outcome
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome.name


@pytest.fixture
def login() -> Login:
    return Login(USERS)


async def test_the_right_password_logs_in_without_delay(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "DELAY_S_MIN", 600.0)
    monkeypatch.setattr(back_off, "DELAY_S_MAX", 600.0)
    trial = Trial(login, "alice", PASSWORD)

    assert await asyncio.wait_for(trial.user(), 60) == "alice"
    login.close()


async def test_a_login_fails_in_one_way_only_and_slowly_whatever_is_wrong(login: Login) -> None:
    trials = [
        Trial(login, "alice", "wrong", "192.0.2.1:1"),
        Trial(login, "nobody", PASSWORD, "192.0.2.2:1"),
        Trial(login, "robot", "any", "192.0.2.3:1"),
        Trial(login, "", "", "192.0.2.4:1"),
        Trial(login, "alice", "", "192.0.2.5:1"),
        Trial(login, "", PASSWORD, "192.0.2.6:1"),
        Trial(login, "alice", PASSWORD + "x" * 2_000, "192.0.2.7:1"),
        Trial(login, "alice", "", "192.0.2.8:1", ("robot.example.com",)),
    ]

    outcomes = [await trial.outcome for trial in trials]

    assert {type(outcome) for outcome in outcomes} == {LoginFailed}
    assert len({str(outcome) for outcome in outcomes}) == 1
    assert all(trial.took_s >= back_off.DELAY_S_MIN for trial in trials)
    login.close()


async def test_a_certificate_logs_in_its_user_with_or_without_the_name(login: Login) -> None:
    names = ("other", "robot.example.com")

    assert await Trial(login, "", "", names=names).user() == "robot"
    assert await Trial(login, "robot", "", names=names).user() == "robot"
    login.close()


async def test_a_user_who_was_removed_while_the_password_was_verified_is_not_let_in(login: Login) -> None:
    trial = Trial(login, "alice", PASSWORD)

    login.users = Users({}, AccessList())

    with pytest.raises(LoginFailed):
        await trial.user()
    login.close()


async def test_guesses_of_one_address_stand_in_line_and_the_right_password_of_another_does_not_wait(login: Login) -> None:
    guesses = [Trial(login, "alice", f"guess {number}") for number in range(3 * back_off.UNDER_WAY_MAX)]

    right = Trial(login, "alice", PASSWORD, "192.0.2.9:1")

    assert await right.user() == "alice"
    assert not any(guess.outcome.done() for guess in guesses[back_off.UNDER_WAY_MAX :])
    await guesses[0].outcome
    assert not any(guess.outcome.done() for guess in guesses[back_off.UNDER_WAY_MAX :])
    login.close()


async def test_an_attempt_counts_until_its_answer_is_due_also_when_its_link_is_gone(login: Login) -> None:
    gone = [Trial(login, "alice", "wrong") for _ in range(back_off.UNDER_WAY_MAX)]
    for each in gone:
        login.hung_up(each.attempt)

    late = Trial(login, "alice", PASSWORD)

    assert await late.user() == "alice"
    assert late.took_s >= back_off.DELAY_S_MIN
    login.close()


async def test_whoever_hung_up_while_waiting_is_not_verified(login: Login) -> None:
    for _ in range(back_off.UNDER_WAY_MAX):
        Trial(login, "alice", "wrong")
    waiting = Trial(login, "alice", PASSWORD)
    login.hung_up(waiting.attempt)
    behind = Trial(login, "alice", PASSWORD)

    assert await behind.user() == "alice"

    assert not waiting.outcome.done()
    login.close()


async def test_more_logins_than_can_wait_are_told_to_come_again(login: Login) -> None:
    for _ in range(back_off.UNDER_WAY_MAX + login_line.LENGTH_MAX):
        Trial(login, "alice", "wrong")

    outcome = await Trial(login, "alice", PASSWORD).outcome

    assert isinstance(outcome, Unavailable)
    assert not isinstance(outcome, LoginFailed)
    login.close()


async def test_no_more_is_kept_of_a_name_and_a_password_than_could_be_right(login: Login) -> None:
    trial = Trial(login, "alice" * 10_000, "x" * 60_000)

    assert trial.attempt.size_bytes < 1_200
    with pytest.raises(LoginFailed):
        await trial.user()
    assert trial.attempt.password == ""
    login.close()


async def test_attempts_under_way_are_bounded_however_many_addresses_they_come_from(login: Login) -> None:
    trials = [Trial(login, "", "", f"192.0.{number // 256}.{number % 256}:1") for number in range(2_000)]

    refused = [trial for trial in trials if trial.outcome.done()]

    assert len(trials) - len(refused) == back_off.UNDER_WAY_TOTAL_MAX + login_line.LENGTH_MAX
    assert all(isinstance(trial.outcome.result(), Unavailable) for trial in refused)
    login.close()


async def test_the_loop_goes_on_while_passwords_are_verified(login: Login) -> None:
    trials = [Trial(login, "alice", PASSWORD, f"192.0.2.{number}:1") for number in range(4)]

    turns = 0
    while not all(trial.outcome.done() for trial in trials):
        await turn_loop()
        turns += 1

    assert turns > 200  # a verification takes some 40 ms; a loop that waited for them would turn a few times
    login.close()


async def test_the_log_says_who_and_from_where_but_no_name_that_is_nobodys(
    login: Login, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    trials = [
        Trial(login, "alice", "wrong secret", "192.0.2.1:5"),
        Trial(login, "typed into the wrong field", "x", "192.0.2.2:5"),
        Trial(login, "alice", PASSWORD, "192.0.2.3:5"),
    ]

    for trial in trials:
        await trial.outcome

    assert "login of alice from 192.0.2.1:5 failed" in caplog.text
    assert "login of somebody unknown from 192.0.2.2:5 failed" in caplog.text
    assert "alice logged in from 192.0.2.3:5" in caplog.text
    assert not any(secret in caplog.text for secret in ("wrong secret", PASSWORD, "wrong field", "argon2id"))
    login.close()


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.1:5", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6:5", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1:5", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1:5", "192.0.2.1"),
        ("fe80::1%eth0:5", "fe80::/64"),
        ("in process", ""),
    ],
)
def test_attempts_are_counted_by_what_their_owner_cannot_choose(peer: str, network: str) -> None:
    assert network_of(peer) == network
