"""Trust in a server: what its probe tells on a new connection, and what a lost connection takes away (continuity rule 12)."""

from __future__ import annotations

import json

import pytest

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.listener.server.server_trust import ServerTrust
from holdfast.continuity.machines.doubt import Policy


class Trusting:
    """Trust in a server that has answered t9 last; why it was to be rebuilt."""

    def __init__(
        self, *, forgets: bool = False, policy: Policy = "resend", probe: str = "/probe", newest: str = "t9", is_new: bool = True,
        is_ordered: bool = True, is_told: bool = True,
    ) -> None:  # fmt: skip
        self.reasons: list[str] = []
        self.trust = ServerTrust(
            forgets=forgets, policy=policy, probe=probe, is_told=is_told, is_ordered=is_ordered, newest=lambda: newest,
            has_come_to=lambda number, other: number in ("t9", "t10"), is_new=is_new,
        )  # fmt: skip
        self.trust.when_lost(self.reasons.append)

    @property
    def asked(self) -> str | None:
        """What it is asked on a new connection."""
        greeting = self.trust.greeting()
        return greeting[0].target if greeting is not None else None

    def told(self, status: int = 200, **what: str | None) -> str:
        """Have the probe say this; what came of it."""
        body = json.dumps(what).encode()
        try:
            self.trust.greeted("t9", Answer(Head(status, [], len(body)), body))
        except CallFailed as failure:
            return failure.kind
        return "unknown" if self.trust.unknown else "trusted"


def test_a_server_is_asked_for_the_newest_transaction_and_for_nothing_before_it_answered() -> None:
    assert Trusting().asked == "/probe?transaction=t9"
    assert Trusting(newest="").asked is None
    assert Trusting(probe="").asked is None
    assert Trusting(forgets=True, newest="").asked == "/probe"
    assert Trusting(is_told=False).asked == "/probe"


def test_a_restart_is_seen_by_the_start_id_and_what_it_has_done_says_the_rest() -> None:
    server = Trusting()

    assert server.told(start="1", state="done") == "trusted"
    assert server.told(start="2") == "unknown"
    assert server.told(start="2") == "unknown"
    assert server.told(start="3", state="done") == "trusted"
    assert server.told(start="4", last="t10") == "trusted"
    assert server.reasons == []


@pytest.mark.parametrize("told", [{"start": "1", "state": "unknown"}, {"start": "2", "last": "t3"}, {"last": ""}])
def test_a_server_that_has_lost_what_it_answered_is_rebuilt_and_not_called(told: dict[str, str]) -> None:
    server = Trusting()
    server.told(start="1", state="done")

    assert server.told(200, **told) == "refused"
    assert "lost" in server.reasons[0]


def test_a_server_that_is_told_no_numbers_can_say_only_when_it_was_started() -> None:
    server = Trusting(is_told=False)

    assert server.told(start="1", state="unknown", last="t3") == "unknown"
    assert server.told(start="1", state="unknown", last="t3") == "unknown"
    assert server.reasons == []


def test_the_last_transaction_says_nothing_where_requests_run_side_by_side() -> None:
    server = Trusting(is_ordered=False)

    assert server.told(last="t3") == "unknown"
    assert server.told(status=404, state="unknown") == "unknown"


def test_a_state_that_is_unknown_is_rebuilt_by_that_policy() -> None:
    server = Trusting(policy="rebuild")
    server.told(start="1", state="done")

    assert server.told(start="2") == "refused"
    assert server.reasons == [server.trust.unknown]


def test_without_a_probe_a_lost_connection_makes_the_state_unknown_and_the_policy_rebuild_rebuilds() -> None:
    for policy, is_rebuilt in (("resend", False), ("rebuild", True)):
        server = Trusting(probe="", policy=policy)  # type: ignore[arg-type]
        assert not server.trust.lost("reset")  # nothing was answered yet
        server.trust.answered()
        assert not server.trust.lost("timed out")
        assert not server.trust.unknown
        assert server.trust.lost("refused") is is_rebuilt
        assert "connection was lost" in server.trust.unknown


def test_a_listener_that_was_started_again_knows_nothing_of_a_server_without_a_probe() -> None:
    assert "no probe" in Trusting(probe="", is_new=False).trust.unknown
    assert not Trusting(is_new=False).trust.unknown


def test_a_server_that_forgets_is_rebuilt_after_every_restart_and_must_tell_its_start() -> None:
    server = Trusting(forgets=True)

    assert server.told(start="1") == "trusted"
    assert server.told(state="done") == "cut"
    assert server.told(start="2", state="done") == "refused"
    assert server.reasons == ["it forgets, and was started again"]
    without = Trusting(forgets=True, probe="")
    without.trust.answered()
    assert without.trust.lost("cut")
