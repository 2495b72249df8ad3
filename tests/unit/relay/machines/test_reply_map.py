"""The original address of a request travels in the event, through any number of relays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.event.event import Head, encode_head
from holdfast.relay.machines.reply_map import SIGN, mapped, read

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=4), st.text(max_size=20))
def test_a_reply_finds_back_through_a_chain_of_relays(upstreams: list[str], correlation_id: str) -> None:
    head = Head(reply_to="_temporary.7f3a", correlation_id=correlation_id or None)

    for upstream in upstreams:
        head = mapped(head, "the-id", upstream, f"relay.{upstream}.replies")
    for upstream in reversed(upstreams):
        address = read(head.correlation_id)
        assert address is not None
        assert address.upstream == upstream
        head = Head(reply_to=address.reply_to, correlation_id=address.correlation_id)

    assert (head.reply_to, head.correlation_id) == ("_temporary.7f3a", correlation_id or "the-id")


def test_only_temporary_addresses_are_mapped() -> None:
    head = Head(reply_to="replies.of.billing", correlation_id="17")

    assert mapped(head, "the-id", "head", "relay.berlin.replies") is head
    assert mapped(Head(), "the-id", "head", "relay.berlin.replies").reply_to is None


@given(st.text(max_size=40))
def test_a_correlation_id_of_somebody_else_is_no_address(text: str) -> None:
    found = read(text)

    assert found is None or text.startswith("relay:")


def test_heads_with_a_temporary_address_show_it_without_being_read() -> None:
    assert SIGN in encode_head(Head(reply_to="_temporary.7f3a"))


@given(st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True))
def test_who_answers_cannot_choose_where_the_relay_sends(queue: str) -> None:
    for forged in (f"relay:head:{queue}:x", f"relay:head:{queue}:relay:head:_temporary.7f3a:x"):
        assert read(forged) is None
    head = Head(reply_to=queue, correlation_id="relay:head:_temporary.7f3a:x")
    assert mapped(head, "the-id", "head", "relay.berlin.replies") is head
