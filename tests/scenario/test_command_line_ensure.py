"""The command line: what is ensured, and dead events by their queue (E4)."""

from __future__ import annotations

from tests.scenario.command_line import Holdfast, holdfast, server

__all__ = ["holdfast", "server"]


def test_a_destination_is_ensured_again_and_again_and_a_difference_is_told_with_both_values(holdfast: Holdfast) -> None:
    first = holdfast("destination", "ensure", "ensured", "--redelivery-limit", "5")
    again = holdfast("destination", "ensure", "ensured", "--redelivery-limit", "5", "--json")
    other = holdfast("destination", "ensure", "ensured", "--redelivery-limit", "7")
    changed = holdfast("destination", "ensure", "ensured", "--redelivery-limit", "7", "--update", "--json")
    subscription = holdfast("subscription", "ensure", "ensured.topic", "audit", "--selector", "a > 1", "--json")
    different = holdfast("subscription", "ensure", "ensured.topic", "audit", "--selector", "a > 2")

    assert (first.code, first.out.strip()) == (0, "queue 'ensured': created")
    assert again.json() == [{"name": "ensured", "kind": "queue", "ensured": "unchanged"}]
    assert other.code != 0 and "redelivery_limit is 5 and 7 was asked for" in other.err
    assert changed.json()[0]["ensured"] == "changed"
    assert subscription.json()[0]["ensured"] == "created"
    assert different.code != 0 and "selector is 'a > 1' and 'a > 2' was asked for" in different.err


def test_dead_events_are_listed_with_their_data_and_purged_by_their_queue(holdfast: Holdfast) -> None:
    for queue in ("dying", "also-dying"):
        holdfast("send", queue, "--data", '{"sku": 7}')
        holdfast("destination", "delete", queue, "--force")

    listed = holdfast("dead", "list", "--queue", "dying", "--code", "deleted", "--since", "1h")
    (event,) = holdfast("dead", "list", "--queue", "dying", "--json").json()
    told = holdfast("status")
    purged = holdfast("dead", "purge", "--queue", "dying", "--json")
    left = holdfast("dead", "list", "--queue", "also-dying", "--json").json()
    wrong = holdfast("dead", "list", "--code", "redeliverd")

    assert '{"sku":7}' in listed.out and "destination deleted" in listed.out and "also-dying" not in listed.out
    assert event["data"] == {"sku": 7} and event["dead"][0]["code"] == "deleted"
    assert "1 deleted of 'dying'" in told.out
    assert (purged.json(), len(left)) == ([{"purged": 1}], 1)
    assert wrong.code != 0 and "the codes are: expired, redelivered" in wrong.err
