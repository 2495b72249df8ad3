"""The roster: who is attached, and how a receiver that attaches anew is told from the one it was."""

from __future__ import annotations

from holdfast.event.position import Ranges
from holdfast.node.delivering.roster import Roster

HOLDER = ("ann", 1)
QUEUE = ("orders", "")


def test_a_receiver_that_attaches_again_has_another_attachment_also_when_it_was_detached_between() -> None:
    roster = Roster()
    seen = []

    for is_detached in (False, True, False):
        roster.expect(HOLDER, "client_manager.test", Ranges())
        roster.attach(HOLDER, QUEUE)
        seen.append(roster.attachment(HOLDER))
        if is_detached:
            roster.detach(HOLDER, QUEUE)

    assert len(set(seen)) == 3
    assert roster.attachment(("ann", 2)) == 0
