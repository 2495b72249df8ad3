"""Requests for joint transactions: CommitAll, and Publish of stages that are in several channels.

    CommitAll ─▶ checks ─▶ JointTransaction, a Preparation for each participant ─▶ JointCommits ─▶ Answered, or Failed

The sessions that it names are those of the user who asks; they need not be on this link, nor known here any more: whoever asks
again, after its client manager has died, learns what was decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.errors import AccessDenied, HoldfastError, ProtocolError, TransactionAborted
from holdfast.node.clients.destination_checks import no_such_channel
from holdfast.node.clients.joint.joint_transaction import JointOutcome, JointTransaction, Preparation
from holdfast.session.session import owner_of
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
    where = " and ".join(f"'{each}'" for each in joint.participants)
    return TransactionAborted(
        f"nothing of this transaction happened, at {where}: {outcome.reason}; begin a new one", assembly=joint.keys[0][1]
    )
