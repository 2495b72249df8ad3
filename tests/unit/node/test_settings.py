from __future__ import annotations

import re

import pytest

from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import BadSetting
from holdfast.node.settings import NodeSettings, checked_advertised, parse_address, parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64K", 65_536), ("64k", 65_536), ("1.5M", 1_572_864), ("2GiB", 2 << 30), ("1TB", 1 << 40)]
)
def test_a_size_is_written_as_people_write_it(text: str, size: int) -> None:
    assert parse_size(text, "--reserve") == size


@pytest.mark.parametrize("text", ["", "lots", "-1", "1X", "M"])
def test_what_is_not_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadSetting, match="64M"):
        parse_size(text, "--reserve")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:7500", ("10.0.0.1", 7500)),
        ("localhost", ("localhost", 7400)),
        (":7500", ("127.0.0.1", 7500)),
        ("[::1]:7500", ("::1", 7500)),
        ("[::1]", ("::1", 7400)),
    ],
)
def test_an_address_has_a_host_and_a_port_with_defaults(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "--listen", port_default=7400) == address


@pytest.mark.parametrize("text", ["host:", "host:70000", ":", "[::1]:"])
def test_a_bad_port_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--listen .* has no valid port; write HOST:PORT"):
        parse_address(text, "--listen", port_default=7400)


@pytest.mark.parametrize(
    "text", ["", "host:abc", "a b:80", "http://host:80", "host:80/x", "::1", "::1:80", "[::1", "host:-1", "user@host:80"]
)
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--listen .* is no address; write HOST:PORT"):
        parse_address(text, "--listen", port_default=7400)


@pytest.mark.parametrize("text", ["nonsense", "[::1]"])
def test_a_host_alone_is_refused_where_no_port_is_usual(text: str) -> None:
    with pytest.raises(BadSetting, match="has no port"):
        parse_address(text, "--listen")


@pytest.mark.parametrize("text", ["foo", ":80", "foo:0", "http://foo:80"])
def test_an_address_that_nobody_can_reach_is_not_told_to_others(text: str) -> None:
    with pytest.raises(BadSetting, match=r"--advertise .*; write HOST:PORT"):
        checked_advertised(text)


def test_an_advertised_address_is_passed_on_as_it_is() -> None:
    assert [checked_advertised(each) for each in ("", "foo:80", "[::1]:80")] == ["", "foo:80", "[::1]:80"]


def test_an_unknown_setting_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(BadSetting, match="session_grace_ms"):
        NodeSettings.of(sesion_grace_ms=1)


@pytest.mark.parametrize("setting", ["session_grace_ms", "heartbeat_ms", "window", "snapshot_bytes"])
def test_a_setting_that_must_be_positive_is_refused_otherwise(setting: str) -> None:
    with pytest.raises(BadSetting, match=setting):
        NodeSettings.of(**{setting: 0})


def test_a_window_wider_than_destinations_hold_back_is_refused() -> None:
    """Rule 6: the machines hold at most so many batches back."""
    with pytest.raises(BadSetting, match="64"):
        NodeSettings.of(window=65)


def test_after_a_start_sessions_may_come_back_for_as_long_as_after_a_lost_link_unless_said_otherwise() -> None:
    assert NodeSettings(session_grace_ms=700).former_grace_ms == 700
    assert NodeSettings(session_grace_ms=700, start_grace_ms=0).former_grace_ms == 0
    with pytest.raises(BadSetting, match="start_grace_ms"):
        NodeSettings(start_grace_ms=-1)


def test_a_limit_that_the_journal_could_never_hold_is_refused_with_the_size_that_it_needs() -> None:
    small = JournalSettings(size_bytes=256 << 20)

    with pytest.raises(BadSetting, match=r"--journal-size") as refused:
        NodeSettings(journal=small, large_bytes_max=400 << 20).check_large()
    needed = int(re.findall(r"--journal-size (\d+)M", refused.value.sentence)[0]) << 20

    NodeSettings(journal=JournalSettings(size_bytes=needed), large_bytes_max=400 << 20).check_large()
    assert NodeSettings(journal=small).journal_size_for(300 << 20) == 600 << 20
