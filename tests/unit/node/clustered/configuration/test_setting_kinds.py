from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.errors import BadSetting
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.clustered.configuration.setting_kinds import (
    ACQUIRABLE,
    ESSENTIAL,
    OWN,
    OWN_OF_CLUSTER,
    all_values,
    essential_values,
    from_text,
    given_values,
    in_force,
    read_value,
    to_text,
)
from holdfast.node.settings import NodeSettings

NATS = JetStreamSettings(servers=("nats://h",), monitors=("http://h",))


def test_every_setting_is_of_one_kind() -> None:
    kinds = [*ESSENTIAL, *OWN, *(each.field for each in ACQUIRABLE.values())]

    assert sorted(kinds) == sorted(field.name for field in fields(NodeSettings))
    assert set(ClusterSettings.__struct_fields__) - set(OWN_OF_CLUSTER) == {"managers"}


def test_what_is_essential_has_a_key_for_each_manager() -> None:
    cluster = ClusterSettings(name="shop", managers={"m1": ("a", "b"), "m2": ("b",)}, nats=NATS)

    assert essential_values(cluster, NodeSettings()) == {
        "managers": "m1, m2",
        "managers.m1": "a, b",
        "managers.m2": "b",
        "replicas": 3,
        "size_mib": 4096,
        "reserve_mib": 16,
        "upkeep_mib": 24,
        "window": 64,
    }


def test_a_setting_as_in_every_release_was_not_given() -> None:
    assert given_values(NodeSettings(session_grace_ms=5_000)) == {}
    assert given_values(NodeSettings(session_grace_ms=2_000, vigil_us=7)) == {"session_grace_ms": 2_000}


def test_what_the_cluster_has_counts_before_what_the_node_was_given() -> None:
    settings = in_force(NodeSettings(name="a", session_grace_ms=2_000), {"stage_idle_ms": 9, "unknown": 1})

    assert (settings.name, settings.session_grace_ms, settings.stage_idle_ms) == ("a", 5_000, 9)
    assert all_values(settings)["stage_idle_ms"] == 9


def test_a_value_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadSetting, match="session_grace_ms must be positive"):
        in_force(NodeSettings(), {"session_grace_ms": 0})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("session-grace-ms", "2000", 2_000),
        ("create_on_use", "False", False),
        ("large_max", "1.5G", 3 << 29),
        ("parts_max", "default", None),
        ("placement", "billing.*=m2,a=b =m1", "billing.*=m2, a=b=m1"),
    ],
)
def test_a_value_is_read_from_text(key: str, text: str, value: object) -> None:
    assert read_value(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("listen", "h:1", "cannot be changed while the cluster runs; these can: users, session_grace_ms"),
        ("session_grace_ms", "soon", "is not a number"),
        ("create_on_use", "1", "is not true or false"),
        ("large_max", "big", "is not a size"),
        ("placement", "billing.*", "is no list of rules"),
    ],
)
def test_a_key_or_value_that_cannot_be_is_refused(key: str, text: str, sentence: str) -> None:
    with pytest.raises(BadSetting, match=sentence):
        read_value(key, text)


@given(st.dictionaries(st.sampled_from(["a", "b.c", "d_e"]), st.one_of(st.integers(0, 9), st.booleans(), st.text('a"\\\n é'))))
def test_settings_survive_their_text(values: dict[str, int | bool | str]) -> None:
    assert from_text(to_text(values), "here") == values


@pytest.mark.parametrize("text", ["[", "session_grace_ms = true", "a = [1]", 'session_grace_ms = "1"'])
def test_a_text_that_is_none_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadSetting, match="the file of h1"):
        from_text(text, "the file of h1")


def test_rules_of_placement_survive_their_text() -> None:
    given = NodeSettings(placement=(("billing.*", "m2"), ("a=b", "m1")))

    assert given_values(given) == {"placement": "billing.*=m2, a=b=m1"}
    assert in_force(NodeSettings(), given_values(given)).placement == given.placement
    with pytest.raises(BadSetting, match="has a comma"):
        given_values(NodeSettings(placement=(("a,b", "m1"),)))
