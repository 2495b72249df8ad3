"""Membership on generated changes: all machines agree byte for byte, and the last servers stay whatever anybody says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.membership import Change, Membership, Moved, Named, Skipped

pytestmark = pytest.mark.slow

NAMES = ["a", "b", "c", "d", "e"]
CHANGES = st.lists(
    st.builds(
        Change,
        kind=st.sampled_from(
            ["join", "join", "current", "current", "current", "behind", "leave", "remove", "drain", "rebuild", "engine", "skip"]
            + 4 * ["disagreement"]
        ),
        server=st.sampled_from([*NAMES, "Bad Name"]),
        site=st.sampled_from(["x", "y"]),
        role=st.sampled_from(["server", "server", "server", "shadow"]),
        since=st.one_of(st.none(), st.integers(0, 20)),
        transaction=st.sampled_from(["t1", "t2", "t3", "t4", "t5"]),
        answers=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["00", "11"])),
        engine=st.sampled_from(["e1", "e2", ""]),
        start=st.sampled_from(["1", "2", ""]),
    ),
    min_size=10,
    max_size=40,
)
# What takes a server away. `behind` is no removal: a listener says what is.
TAKING = ("leave", "remove", "drain", "rebuild", "disagreement")


@given(CHANGES, st.integers(1, 3), st.sets(st.integers(0, 80)))
def test_two_machines_fed_the_same_changes_agree_byte_for_byte_at_every_place(
    said: list[Change], servers_min: int, restored_at: set[int]
) -> None:
    one, other = Membership(servers_min), Membership(servers_min)

    for place, change in enumerate(said):
        if place in restored_at:
            other = Membership.decode(other.encode())
        number, before = one.number, one.encode()
        assert one.apply(place, change) == other.apply(place, changes.decode(changes.encode(change)))
        assert one.encode() == other.encode()
        assert (one.encode() != before) == (one.number > number)


# The last server, which is behind, does not become a shadow.
@example(
    [
        Change("join", "c"),
        Change("current", "c"),
        Change("behind", "c"),
        Change("join", "c", role="shadow"),
    ],
    1,
)
@given(CHANGES, st.integers(1, 3))
def test_no_sequence_of_changes_removes_a_server_if_fewer_than_servers_min_others_are_current(
    said: list[Change], servers_min: int
) -> None:
    members = Membership(servers_min)

    for place, change in enumerate(said):
        before, current = dict(members.members), members.current
        members.apply(place, change)

        gone = [
            name
            for name, was in before.items()
            if was.role == "server"
            and was.state in ("current", "behind")
            and ((now := members.members.get(name)) is None or now.state == "removed" or now.role == "shadow")
        ]
        assert not gone or len(members.current) >= servers_min
        if change.kind in (*TAKING, "join") and len(members.current) < len(current):
            assert len(members.current) >= servers_min


@given(CHANGES)
def test_only_a_majority_of_current_servers_names_a_server_wrong_and_only_all_of_them_skip(said: list[Change]) -> None:
    members, died = Membership(), dict[str, set[str]]()

    for place, change in enumerate(said):
        current, roles = members.current, {name: each.role for name, each in members.members.items()}
        skipped = {each for each in died if members.is_skipped(each)}
        if change.kind == "skip" and roles.get(change.server) == "server":
            died.setdefault(change.transaction, set()).add(change.server)
        effects = members.apply(place, change)

        for effect in effects:
            if isinstance(effect, Named):
                of_servers = [change.answers[name] for name in current if name in change.answers]
                for name in effect.servers:
                    against = sum(digest != change.answers[name] for digest in of_servers)
                    if effect.kind == "wrong" and roles[name] == "server":
                        assert 2 * against > len(of_servers) >= 3
                    elif effect.kind == "wrong":
                        assert against > 0
                    else:
                        assert roles[name] == "server"
            elif isinstance(effect, Skipped):
                assert members.is_skipped(effect.transaction)
                assert effect.transaction in skipped or set() < set(members.current) <= died[effect.transaction]
            elif isinstance(effect, Moved) and change.kind == "disagreement":
                assert roles[effect.server] == "server"
