"""Questions about joint transactions: every message manager is asked, and who does not answer in time is named.

A transaction is in doubt for long only while a message manager is away. So the answer does not wait for that one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.node.administration import cluster_arguments
from holdfast.node.administration.gathering import transactions
from holdfast.node.login.permission import visible_transactions

if TYPE_CHECKING:
    from holdfast.node.clients.requests import Request

ANSWER_MS = 2_000


def list_transactions(request: Request, asked: cluster_arguments.Transactions) -> None:
    """Answer with those in doubt, and with who did not answer."""
    names = [target.name for target in request.targets]
    answers: dict[str, Any] = {}
    refused: list[str] = []
    is_told = False

    def answered(name: str, rows: Any) -> None:
        answers[name] = rows
        tell_if_all()

    def failed(name: str, problem: HoldfastError) -> None:
        refused.append(name)
        tell_if_all()

    def tell_if_all() -> None:
        if len(answers) + len(refused) == len(names):
            timer.cancel()
            tell()

    def tell() -> None:
        nonlocal is_told
        if is_told:  # an answer that came late
            return
        is_told = True
        rows = visible_transactions(request.session, transactions(answers))
        request.answered({"transactions": rows, "did_not_answer": [each for each in names if each not in answers]})

    timer = request.manager.clock.call_later(ANSWER_MS, tell)
    for target in request.targets:
        token = target.next_token(partial(answered, target.name), partial(failed, target.name))
        target.ask("transactions", asked, token)
