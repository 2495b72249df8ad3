"""Orders become invoices, and invoices become mails: retries where they help, dead events where they do not.

    holdfast serve
    holdfast work examples.services.orders:worker --url holdfast://localhost --processes 2
    holdfast send orders --data '{"id": "A1", "sku": 7, "count": 2}'
    holdfast dead list --queue orders

An order of an unknown article is not tried again; a mail that cannot be sent is, for about ten minutes.
"""

from __future__ import annotations

import msgspec

import holdfast

worker = holdfast.Worker()
PRICES = {7: 19, 8: 250}


class Order(msgspec.Struct):
    id: str
    sku: int
    count: int = 1


class Invoice(msgspec.Struct):
    order: str
    amount: int


@worker.on_start
async def prepare(client: holdfast.Client) -> None:
    await client.ensure_queue("orders", deduplicate="10m")


@worker.queue("orders", concurrency=8, retries=5, timeout=30, transactional=True, reject_on=KeyError)
async def invoice(order: Order, tx: holdfast.Transaction) -> None:
    amount = PRICES[order.sku] * order.count  # KeyError: no such article, which another try does not change
    await tx.queue("invoices").send(Invoice(order.id, amount), type="invoice")


@worker.queue("invoices", concurrency=4, retries=10, backoff=(1, 300))
def mail(invoice: Invoice) -> None:
    send_mail(f"order {invoice.order}: please pay {invoice.amount}")


def send_mail(text: str) -> None:
    print(text)
