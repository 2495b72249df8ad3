"""One server within a gathering: what came from it, whether more may come, and the choice among several.

    open       nothing, or not everything, has come
    whole      the last part has come
    failed     no answer: refused, reset, timed out, cut; its call is in doubt
    gone, differs, clash, declined     said so (see `answer.Outcome`)
    lost       its link is lost; it may answer for a while    ──▶ expired
    removed    it is not current; nothing it says counts

A lost server that answers is open again. So is a failed one, once its answer is whole: a call in doubt may have been resolved,
and a single part may be one that the failure overtook.
"""

from __future__ import annotations

from typing import Literal

from holdfast.continuity.answer import Head, Part
from holdfast.continuity.answer_body import Held

State = Literal["open", "whole", "failed", "gone", "differs", "clash", "declined", "lost", "expired", "removed"]

# The beginning of the reason in a failed part whose call took too long: 504 instead of 502.
TIMED_OUT = "timed out"


class GatheredServer:
    __slots__ = (
        "_held", "_seen", "comparison", "head", "is_refuted", "is_replayed", "is_shadow", "reason", "server", "since", "state",
    )  # fmt: skip

    def __init__(self, server: str, is_shadow: bool = False) -> None:
        self.server = server
        self.is_shadow = is_shadow
        self.state: State = "open"
        self.head: Head | None = None
        self.is_replayed = False
        self.is_refuted = False  # its body is not the one that the client has a part of
        self.comparison = b""
        self.reason = ""
        self.since = 0.0  # when the state was entered
        self._held: Held | None = None
        self._seen = 0  # up to which byte parts have come, kept or not

    # --- what came -----------------------------------------------------------------------------------------------------

    def note(self, part: Part, now: float, is_kept: bool) -> None:
        """A part came. Its body is held if `is_kept`."""
        if part.outcome not in ("answered", "replayed"):
            if self.state != "whole":
                self.state = part.outcome  # type: ignore[assignment]  # both of those left out above are no states
                self.comparison, self.reason, self.since = part.comparison, part.reason, now
            return
        if self.state in ("lost", "expired"):
            self.state = "open"
        if part.head is not None and self.head is None:
            self.head = part.head
            self.is_replayed = part.outcome == "replayed"
        self._seen = max(self._seen, part.offset + len(part.body))
        if is_kept:
            self.held.put(part)
        if part.is_last and self.state != "whole":
            self._end(part, now)

    def _end(self, part: Part, now: float) -> None:
        length = self.head.length if self.head is not None else -1
        if length >= 0 and part.offset + len(part.body) not in (length, 0):
            self.fail("its answer was cut short", now)
        else:
            self.state, self.comparison, self.since = "whole", part.comparison, now

    def end(self, part: Part, head: Head, now: float) -> None:
        """A whole answer came in one part, and was handed on."""
        self.head = head
        self.state = "whole"
        self.comparison = part.comparison
        self.since = now

    def fail(self, reason: str, now: float) -> None:
        self.state, self.reason, self.since = "failed", reason, now

    def lose(self, now: float, kind: Literal["link lost", "removed"]) -> None:
        """Its link is lost, or it is removed. A whole answer stays one when the link is lost: the listener's store has it."""
        if kind == "removed":
            self.state, self.since = "removed", now
        elif self.state == "open":
            self.state, self.since = "lost", now

    def expire(self, now: float, wait: float) -> None:
        if self.state == "lost" and now >= self.since + wait:
            self.state = "expired"

    def forget_bodies(self) -> None:
        if self._held is not None:
            self._held = None

    # --- what may come -------------------------------------------------------------------------------------------------

    @property
    def held(self) -> Held:
        if self._held is None:
            self._held = Held()
        return self._held

    @property
    def may_answer(self) -> bool:
        return self.state in ("open", "lost") or (self.state == "whole" and self.head is None)

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer to hand on, or its beginning."""
        return self.head is not None and self.state in ("open", "whole")

    @property
    def is_error(self) -> bool:
        return self.head is not None and self.head.status >= 500

    @property
    def is_without_head(self) -> bool:
        """Whether parts came, and the one with status and headers was missed."""
        return self.head is None and (self.state == "whole" or (self.state == "open" and self._seen > 0))

    def agrees_with(self, head: Head) -> bool:
        """Whether it could go on with an answer that began with this head, as far as is known."""
        if self.is_refuted:
            return False
        return self.head is None or (self.head.status, self.head.length) == (head.status, head.length)

    def has_sent_more_than(self, offset: int) -> bool:
        """Whether bytes after this one, or the end, were sent and are not here."""
        return self.state == "whole" or self._seen > offset

    def fault(self, late_after: float) -> Literal["late", "silent", "link lost", "in doubt"] | None:
        """What is held against it when everything is decided."""
        if self.state == "failed":
            return "in doubt"
        if self.state in ("lost", "expired"):
            return "link lost"
        if self.state == "open":
            return "silent"
        return "late" if self.state == "whole" and self.since > late_after else None


# --- the choice ---------------------------------------------------------------------------------------------------------


def first_of(electable: list[GatheredServer]) -> GatheredServer | None:
    return next((source for source in electable if source.has_answer and not source.is_error), None)


def agreed_of(electable: list[GatheredServer], is_error: bool = False) -> GatheredServer | None:
    """A server whose answer another one's equals.

    One that keeps the digest but not the body (`gone`) has a vote, too. An answer without a digest has none.
    """
    votes = _votes(electable)
    return next(
        (
            source
            for source in electable
            if source.state == "whole"
            and source.head is not None
            and source.is_error == is_error
            and votes.get(source.comparison, 0) > 1
        ),
        None,
    )


def _votes(electable: list[GatheredServer]) -> dict[bytes, int]:
    votes: dict[bytes, int] = {}
    for source in electable:
        if source.comparison and source.state in ("whole", "gone"):
            votes[source.comparison] = votes.get(source.comparison, 0) + 1
    return votes


def is_impossible(electable: list[GatheredServer], pending: int) -> bool:
    """Whether no two can be equal any more, whatever those say that may still answer."""
    return pending + max(_votes(electable).values(), default=0) < 2


def error_of(electable: list[GatheredServer], is_first: bool) -> tuple[int, str]:
    """Status and reason when there is no answer to give. Called when nobody may answer, or no two can agree."""
    states = [source.state for source in electable]
    failed = [source.reason for source in electable if source.state == "failed"]
    if states and all(state == "gone" for state in states):
        return 410, "the key is known, and its answer is kept no more"
    if "differs" in states and all(state in ("differs", "gone", "failed", "expired", "declined") for state in states):
        return 409, "the key is known, and the answer that was given is not to be had any more"
    if not is_first:
        return 502, "no two servers gave equal answers"
    if any(not reason.startswith(TIMED_OUT) for reason in failed):
        return 502, next(reason for reason in failed if not reason.startswith(TIMED_OUT)) or "the call failed"
    if failed:
        return 504, failed[0]
    if states and all(state == "declined" for state in states):
        return 503, electable[0].reason or "no server is current"
    return 504, "no server is left that could answer"
