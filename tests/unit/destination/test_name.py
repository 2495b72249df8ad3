from __future__ import annotations

import pytest

from holdfast.destination.name import check_destination, check_subscription
from holdfast.errors import BadName


@pytest.mark.parametrize("name", ["orders", "a", "plant/7/alarms", "billing.eu-west_1", "x" * 255, "9"])
def test_names_of_letters_digits_and_four_signs_are_fine(name: str) -> None:
    check_destination(name)
    check_subscription(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is empty"),
        ("x" * 256, "has 256 characters and may have 255"),
        ("two words", "contains ' '"),
        ("ümlaut", "contains 'ü'"),
        ("a*", "contains '*'"),
        ("line\n", "contains '\\n'"),
    ],
)
def test_any_other_name_is_refused_with_a_sentence_that_says_why(name: str, said: str) -> None:
    for check in (check_destination, check_subscription):
        with pytest.raises(BadName) as refused:
            check(name)
        assert said in refused.value.sentence


def test_a_leading_underscore_is_reserved_b16() -> None:
    for check in (check_destination, check_subscription):
        with pytest.raises(BadName, match="reserved"):
            check("_LOG")


def test_a_client_manager_may_name_a_non_durable_subscription_with_an_underscore() -> None:
    check_subscription("_ann-1", is_own=True)
