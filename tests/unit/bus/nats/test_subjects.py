from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.bus.bus import CLIENT_MANAGERS, NODES, client_manager_subject, message_manager_subject
from holdfast.bus.nats.subjects import Route, Subjects, route_of, text_of_token, token

OF = Subjects("eu-1")


def test_each_subject_of_the_bus_has_its_own_of_nats() -> None:
    assert OF.of_manager("orders") == "hf.eu-1.mm.orders"
    assert OF.of_client("01ABC") == "hf.eu-1.cm.01ABC"
    assert OF.of_all(CLIENT_MANAGERS) == "hf.eu-1.cms"
    assert OF.of_all(NODES) == "hf.eu-1.nodes"
    assert OF.of_all("node.n1") == "hf.eu-1.node.n1"
    assert OF.of_all("node.all") == "hf.eu-1.node.all"


@pytest.mark.parametrize(
    ("subject", "route"),
    [
        (message_manager_subject("orders"), Route("manager", "orders")),
        (client_manager_subject("01ABC"), Route("client", "01ABC")),
        (client_manager_subject("01ABC") + ".orders.eu", Route("client", "01ABC")),
        (CLIENT_MANAGERS, Route("all", CLIENT_MANAGERS)),
        (NODES, Route("all", NODES)),
        ("node.n1", Route("all", "node.n1")),
        ("administration.01ABC", Route("local", "administration.01ABC")),
    ],
)
def test_each_subject_of_the_bus_leads_somewhere(subject: str, route: Route) -> None:
    assert route_of(subject) == route


@given(st.text(), st.text())
def test_different_names_have_different_subjects_of_four_tokens_that_mean_nothing_to_nats(one: str, two: str) -> None:
    first, second = OF.of_manager(one), OF.of_manager(two)

    assert (first == second) == (one == two)
    assert first.count(".") == 3
    assert not set(first) & set("*> \t\r\n\0")
    assert first.rpartition(".")[2]


@given(st.text())
def test_a_name_is_found_in_its_token(name: str) -> None:
    assert text_of_token(token(name)) == name
