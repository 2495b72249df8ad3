"""The client suites over two message managers (ADR 22): what a short run leaves out, and what is different there.

A short run leaves out the suites that wait by the clock: they show the same of one manager, and of two in `make test-long`. A
test that is different over two managers must fail there: when it no longer does, it is taken off this list.
"""

from __future__ import annotations

import pytest

LONG = frozenset(
    f"tests.contract.test_{name}"
    for name in (
        "client_accept_time", "client_confirm_modes", "client_confirm_modes_blocking", "client_credit", "client_expired",
        "client_keeper", "client_many_questions", "client_order", "client_release", "client_removal", "worker", "worker_ending",
        "worker_retries", "worker_services", "worker_transactions",
    )
)  # fmt: skip

PLACES = "a pattern has positions and places in each channel, and is read by them in one channel at a time"
ORDER = "positions of two channels are not compared: which is the greater is chance"
CREDIT = "a credit is shared by the channels, one event for each at least: a receiver of a pattern may be handed an event of each"
IDENTITY = "an identity names the incarnation of one channel, and the client tells those of all"

DIFFERENT = {
    "test_a_queue_and_each_subscription_have_an_identity": IDENTITY,
    "test_small_events_of_the_same_session_go_between_the_fragments": ORDER,
    "test_the_subscription_of_a_pattern_counts_for_each_topic_it_matches": PLACES,
    "test_a_subscription_that_was_made_again_has_another_identity": IDENTITY,
    "test_a_wildcard_subscription_can_be_shared_and_have_a_selector": CREDIT,
    "test_a_pattern_is_one_subscription_that_a_topic_created_later_joins": PLACES,
    "test_nobody_needs_to_own_the_subscription_and_a_wildcard_is_read_too": PLACES,
}
# Where tests share a cluster, a new name may be at either manager.
CHANCE = "which manager a name is at, and so the order of events of two names, is chance"
DIFFERENT_IN_A_CLUSTER = {
    "test_a_wildcard_subscription_is_browsed_and_each_event_says_where_it_was_sent": CHANCE,
    "test_what_expired_has_no_end_to_its_life_once_it_is_replayed": CHANCE,
    "test_purging_removes_what_is_named_and_nothing_else": CHANCE,
    "test_a_topic_without_durable_subscriptions_has_nobody_who_counts": CHANCE,
    "test_a_named_wildcard_is_durable_and_remembers_where_each_event_was_sent": CHANCE,
    "test_a_wildcard_receives_from_topics_that_are_there_and_from_those_to_come": CHANCE,
    "test_a_regular_expression_receives_from_what_it_fits_as_a_whole": CHANCE,
}
# These wait until their time is up.
SLOW = frozenset(("test_a_wildcard_subscription_can_be_shared_and_have_a_selector",))


def mark(item: pytest.Item) -> None:
    """Mark a test that runs over two managers."""
    if not isinstance(item, pytest.Function) or getattr(item, "callspec", None) is None:
        return
    url = item.callspec.params.get("url")
    if url not in ("managers", "managed-cluster"):
        return
    if item.module.__name__ in LONG or item.originalname in SLOW:
        item.add_marker(pytest.mark.long)
    if url == "managed-cluster" and (chance := DIFFERENT_IN_A_CLUSTER.get(item.originalname)) is not None:
        item.add_marker(pytest.mark.skip(reason=chance))
    elif (why := DIFFERENT.get(item.originalname)) is not None:
        item.add_marker(pytest.mark.skip(reason=why) if why == ORDER else pytest.mark.xfail(strict=True, reason=why))
