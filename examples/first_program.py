"""The first program: an event on disk, received, confirmed. Run it twice: it finds its own folder again."""

import holdfast


async def main() -> None:
    async with holdfast.connect("file:./events") as client:  # or holdfast://host: nothing else changes
        orders = client.queue("orders")
        receipt = await orders.send({"sku": 7}, type="order.placed")  # returns when it is on disk
        print("durable at position", receipt.position)
        async with orders.receive() as incoming:
            async for event in incoming:
                print(event.type, event.data)
                await event.confirm()  # or event.release(delay=5), event.reject("reason")
                break


holdfast.run(main())  # as asyncio.run, and Ctrl-C ends it in good order
