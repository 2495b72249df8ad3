"""The ids of a session, as one text: its own, or one for each channel where a server has several; its own channel first."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.errors import BadSetting

_decode = msgspec.json.Decoder(dict[str, str]).decode


def to_text(ids: Mapping[str, str]) -> str:
    """The text of ids by channel. That of a single server, whose channel has no name, is the id itself."""
    return ids[""] if set(ids) == {""} else msgspec.json.encode(dict(ids)).decode()


def from_text(text: str) -> dict[str, str]:
    """The ids by channel; BadSetting if it is no such text. "" has none."""
    if not isinstance(text, str) or not text.isprintable():
        raise BadSetting(f"resume {text!r:.40} is not the id of a session; give what `session.id` said", setting="resume")
    if not text.startswith("{"):
        return {"": text} if text else {}
    try:
        return _decode(text)
    except msgspec.DecodeError as problem:
        raise BadSetting(f"resume {text!r:.40} is not the id of a session: {problem}", setting="resume") from problem
