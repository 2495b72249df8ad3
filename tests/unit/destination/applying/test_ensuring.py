"""Ensuring as a machine: who comes first, what is compared, what is changed, and that a refusal changes nothing."""

from __future__ import annotations

import pytest

from holdfast.destination.command import Configure, Create, Ensure, EnsureSubscription, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.settings import FIRST_USE_QUEUE, Settings, of_first_use
from holdfast.errors import BadSetting, NotEmpty, SettingsDiffer, SubscriptionInUse, WrongKind
from tests.machines import Manager, manager_at_work


@pytest.fixture
def manager() -> Manager:
    return manager_at_work()


def ensure(name: str, kind: str = "queue", update: bool = False, **settings: int) -> Ensure:
    whole = of_first_use(kind, Settings(**settings), [*settings])
    return Ensure(name, kind, whole, [*settings], update)  # type: ignore[arg-type]


def ensure_subscription(name: str, given: list[str], update: bool = False, **terms: object) -> EnsureSubscription:
    return EnsureSubscription("alerts", name, True, given=given, update=update, replace=False, **terms)  # type: ignore[arg-type]


def first_used(name: str) -> Create:
    return Create(name, "queue", FIRST_USE_QUEUE, True, is_unconfigured=True)


def settings(manager: Manager, name: str) -> Settings:
    return manager.directory.catalog.find(name).settings


def test_the_first_program_creates_and_the_second_finds_what_the_first_made(manager: Manager) -> None:
    assert manager.ask(ensure("jobs", redelivery_limit=3)) == "created"
    assert manager.ask(ensure("jobs", redelivery_limit=3)) == "unchanged"
    assert manager.ask(ensure("jobs")) == "unchanged"

    assert settings(manager, "jobs").redelivery_limit == 3


def test_a_difference_is_refused_with_both_values_of_each_setting_and_changes_nothing(manager: Manager) -> None:
    manager.ask(Create("jobs", "queue", Settings(redelivery_limit=3, redelivery_delay_ms=500)))
    before = manager.directory.digest()

    with pytest.raises(SettingsDiffer) as refused:
        manager.ask(ensure("jobs", redelivery_limit=5, redelivery_delay_ms=2_000, events_max=0))

    assert refused.value.fields == {
        "name": "jobs", "redelivery_limit": 3, "redelivery_limit_asked": 5, "redelivery_delay": 0.5, "redelivery_delay_asked": 2.0
    }  # fmt: skip
    assert "redelivery_limit is 3 and 5 was asked for" in refused.value.sentence
    assert "redelivery_delay is 0.5 and 2 was asked for" in refused.value.sentence
    assert manager.directory.digest() == before


def test_with_update_only_the_settings_given_are_changed(manager: Manager) -> None:
    manager.ask(Create("jobs", "queue", Settings(redelivery_limit=3, events_max=10)))

    assert manager.ask(ensure("jobs", update=True, redelivery_limit=5)) == "changed"

    assert settings(manager, "jobs") == Settings(redelivery_limit=5, events_max=10)


def test_a_destination_that_nobody_configured_takes_the_settings_once(manager: Manager) -> None:
    manager.ask(first_used("jobs"))

    assert manager.ask(ensure("jobs", redelivery_limit=5)) == "changed"

    assert settings(manager, "jobs").redelivery_limit == 5
    with pytest.raises(SettingsDiffer):
        manager.ask(ensure("jobs", redelivery_limit=6))


def test_the_settings_are_the_same_whether_the_producer_or_the_worker_comes_first(manager: Manager) -> None:
    manager.ask(first_used("producer"))
    for given in ({"redelivery_limit": 5}, {"redelivery_delay_ms": 120_000}, {"redelivery_factor": 3, "events_max": 9}):
        names = [f"{who}-{len(given)}-{next(iter(given))}" for who in ("producer", "worker")]
        manager.ask(first_used(names[0]))
        for name in names:
            manager.ask(ensure(name, "queue", False, **given))

        assert settings(manager, names[0]) == settings(manager, names[1])


def test_a_delay_that_is_given_is_not_cut_by_the_back_off_of_the_first_use(manager: Manager) -> None:
    manager.ask(first_used("jobs"))
    manager.ask(first_used("more"))

    manager.ask(ensure("jobs", redelivery_delay_ms=120_000))
    manager.ask(Configure("more", Settings(redelivery_delay_ms=120_000), changed=["redelivery_delay_ms"]))

    assert [settings(manager, name).redelivery_delay_of(3) for name in ("jobs", "more")] == [120_000, 120_000]


def test_what_was_created_or_configured_by_somebody_is_not_taken_for_unconfigured(manager: Manager) -> None:
    manager.ask(Create("made", "queue"))
    manager.ask(first_used("used"))
    manager.ask(Configure("used", Settings(events_max=7), changed=["events_max"]))

    for name in ("made", "used"):
        with pytest.raises(SettingsDiffer):
            manager.ask(ensure(name, redelivery_limit=5))


def test_a_first_use_of_a_former_release_is_as_it_was(manager: Manager) -> None:
    manager.ask(Create("old", "queue", is_implicit=True))

    assert settings(manager, "old") == Settings()
    assert not manager.directory.catalog.find("old").is_unconfigured


def test_that_nobody_configured_a_destination_is_known_after_a_snapshot(manager: Manager) -> None:
    manager.ask(first_used("jobs"))
    manager.ask(Create("news", "topic", is_implicit=True, is_unconfigured=True))

    restored = Directory.restore(manager.directory.snapshot())

    assert restored.digest() == manager.directory.digest()
    assert [restored.catalog.find(name).is_unconfigured for name in ("jobs", "news", "orders")] == [True, True, False]
    manager.ask(ensure("jobs", events_max=0))
    assert restored.digest() != manager.directory.digest()


def test_another_kind_and_a_setting_that_there_is_not_are_refused(manager: Manager) -> None:
    with pytest.raises(WrongKind):
        manager.ask(ensure("orders", "topic"))
    with pytest.raises(BadSetting, match="no setting 'colour'"):
        manager.ask(Ensure("orders", "queue", Settings(), ["colour"]))


# --- subscriptions -------------------------------------------------------------------------------------------------------


def test_a_subscription_is_created_and_found_and_only_terms_that_are_given_are_compared(manager: Manager) -> None:
    assert manager.ask(ensure_subscription("large", ["selector"], selector="level > 5")) == "created"
    assert manager.ask(ensure_subscription("large", ["selector"], selector="level > 5")) == "unchanged"
    assert manager.ask(ensure_subscription("large", [])) == "unchanged"

    with pytest.raises(SettingsDiffer) as refused:
        manager.ask(ensure_subscription("large", ["selector", "shared"], selector="level > 6", is_shared=True))

    assert refused.value.fields["selector"] == "level > 5" and refused.value.fields["selector_asked"] == "level > 6"
    assert "shared is false and true was asked for" in refused.value.sentence
    assert "selector is 'level > 5' and 'level > 6' was asked for" in refused.value.sentence


def test_a_subscription_is_changed_with_update_while_nothing_is_lost(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "large", True, selector="level > 5"))

    assert manager.ask(ensure_subscription("large", ["no_local"], update=True, no_local=True)) == "changed"

    found = manager.directory.catalog.subscription("alerts", "large")
    assert found.terms.choice == ("level > 5", True)


def test_a_subscription_with_waiting_events_or_receivers_is_not_changed(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "all", True))
    manager.send("alerts", 1)

    with pytest.raises(NotEmpty):
        manager.ask(ensure_subscription("all", ["selector"], update=True, selector="level > 5"))
    with pytest.raises(SubscriptionInUse):  # `audit` has a receiver
        manager.ask(ensure_subscription("audit", ["selector"], update=True, selector="level > 5"))
