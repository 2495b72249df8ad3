"""Requests for joint transactions: CommitAll, and Publish of stages that are in several channels.

    CommitAll ─▶ checks ─▶ JointTransaction, a Preparation for each participant ─▶ JointCommits ─▶ Answered, or Failed

The sessions that it names are those of the user who asks; they need not be on this link, nor known here any more: whoever asks
again, after its client manager has died, learns what was decided.

    Publish ─▶ the stages of each channel ─▶ one alone, the first: a Publish command there
                                          └▶ a JointTransaction of those channels and the first

A publication is known by its scope and number, not by the attempt. The first message manager takes part in all of them: so it
knows every number of a scope, whatever the channels of a repetition are. A number that a participant has published before is
aborted, and answered as a repetition; its stages are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.destination import command
from holdfast.destination.applying.preparing import IN_DOUBT, SESSION_GONE
from holdfast.errors import AccessDenied, HoldfastError, NotPublished, OutcomeUnknown, ProtocolError, TransactionAborted
from holdfast.node.clients import assembly_requests
from holdfast.node.clients.destination_checks import no_such_channel
from holdfast.node.clients.joint.joint_transaction import JointOutcome, JointTransaction, Preparation
from holdfast.session.session import owner_of, stages_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.clients.requests import Request

KEY_LENGTH_MAX = 512


def commit_all(request: Request, message: frame.CommitAll) -> None:
    _check(request, message.participants)
    joint = JointTransaction(
        tuple(each.channel for each in message.participants),
        tuple((each.session, each.assembly) for each in message.participants),
    )
    preparations = {each.channel: _preparation(request, each) for each in message.participants}

    def told(outcome: JointOutcome) -> None:
        if outcome.is_commit:
            request.answered(None)
        else:
            request.failed(_aborted(joint, outcome))

    request.manager.joint.commit(joint, preparations, told)


def publish_all(request: Request, message: frame.Publish) -> None:
    """Publish stages where there are several message managers."""
    assembly_requests.check_publish(message)
    managers = request.manager.managers
    channels = message.channels or [request.session.channel] * len(message.stages)
    if len(channels) != len(message.stages):
        raise ProtocolError("a channel is named for each stage, or for none; its client is broken")
    named: dict[str, list[tuple[str, int]]] = {min(managers): []}
    for stage, channel in zip(message.stages, channels, strict=True):
        if channel not in managers:
            raise no_such_channel(channel, managers)
        named.setdefault(channel, []).append(stage)
    if len(named) == 1:
        request.targets = [managers[min(managers)]]
        make, payload = assembly_requests.publish(request.session, message, request.manager.now_ms())
        request.submit(make, payload=payload)
        return
    participants, attempt = tuple(sorted(named)), request.manager.new_producer("")
    joint = JointTransaction(participants, ((stages_of(request.session.id), attempt),) * len(participants))
    client, scope, number = request.session.client, message.scope, message.number
    preparations = {
        each: Preparation(0, [], client, scope, number, assembly_requests.named(named[each])) for each in participants
    }
    request.manager.joint.commit(joint, preparations, partial(_published, request, message, named))


def _published(request: Request, message: frame.Publish, named: dict[str, list[tuple[str, int]]], outcome: JointOutcome) -> None:
    if outcome.is_commit:
        events = sum(int(result[1]) for result in outcome.results.values())  # type: ignore[call-overload]
        request.answered({"is_new": True, "events": events, "last": message.number})
    elif outcome.published_before >= message.number:
        _drop(request, named)
        request.answered({"is_new": False, "events": 0, "last": outcome.published_before})
    elif IN_DOUBT in outcome.reason:
        request.failed(OutcomeUnknown(f"an earlier attempt to publish this is not decided yet: {outcome.reason}; ask again"))
    else:
        request.failed(
            NotPublished(
                f"nothing was published, at {_where(tuple(sorted(named)))}: {outcome.reason}",
                scope=message.scope,
                number=message.number,
            )
        )


def _drop(request: Request, named: dict[str, list[tuple[str, int]]]) -> None:
    """Stages of a repetition are let go. Where that fails, they are given up after a while."""
    for channel, stages in named.items():
        if stages:
            dropped = command.Abandon(stages_of(request.session.id), "")
            request.manager.managers[channel].append(dropped, assembly_requests.named([name for name, _ in stages]))


def _where(participants: Sequence[str]) -> str:
    return " and ".join(f"'{each}'" for each in participants)


def _check(request: Request, participants: Sequence[frame.Participant]) -> None:
    """ProtocolError for what no client of ours asks."""
    if len(participants) < 2 or any(one.channel >= other.channel for one, other in pairwise(participants)):
        raise ProtocolError("a transaction over several message managers names two at least, ascending, each once")
    for each in participants:
        if each.channel not in request.manager.managers:
            raise no_such_channel(each.channel, request.manager.managers)
        if not each.session or not each.assembly or max(len(each.session), len(each.assembly)) > KEY_LENGTH_MAX or each.parts < 0:
            raise ProtocolError("a transaction has a session and an assembly at each message manager; its client is broken")
        if owner_of(each.session) != owner_of(request.session.id):
            raise AccessDenied("a transaction is of sessions of its own user; this one names another's", session=each.session)


def _preparation(request: Request, asked: frame.Participant) -> Preparation:
    settled = request.settled(request.manager.managers[asked.channel], asked.session, asked.settled)
    return Preparation(asked.parts, settled, request.session.client)


def _aborted(joint: JointTransaction, outcome: JointOutcome) -> HoldfastError:
    return TransactionAborted(
        f"nothing of this transaction happened, at {_where(joint.participants)}: {outcome.reason}; begin a new one",
        assembly=joint.keys[0][1],
        is_session_gone=SESSION_GONE in outcome.reason,
    )
