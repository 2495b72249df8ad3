"""A work queue: jobs that fail, retries that wait longer each time, and jobs that are given up.

    python examples/work_queue.py [URL]

Three workers share a queue. A job that fails is released; the settings of the queue make it wait 50 ms, then 100, then 200. A job
that has failed four times is given up: it is among the dead events with the reason, and can be replayed when the cause is mended.
"""

import asyncio
import sys

import holdfast

JOBS = ["resize cat.png", "resize dog.png", "flaky upload", "resize owl.png", "impossible conversion"]


async def work(client: holdfast.Client, name: str, done: asyncio.Queue[str]) -> None:
    async with client.session(name=name) as session, session.queue("jobs").receive(credit=1) as incoming:
        async for job in incoming:
            try:
                carry_out(job.data, job.deliveries)
            except OSError as problem:
                print(f"{name}: {job.data!r} failed ({problem}), attempt {job.deliveries + 1}")
                await job.release()  # comes again, to anyone, after the queue's delay
            else:
                await job.confirm()
                await done.put(job.data)


def carry_out(job: str, attempts_before: int) -> None:
    if "impossible" in job:
        raise OSError("no converter")
    if "flaky" in job and attempts_before < 2:
        raise OSError("connection reset")


async def main(url: str) -> None:
    async with holdfast.connect(url, name="work_queue") as client:
        await client.ensure_queue("jobs", redelivery_limit=3, redelivery_delay=0.05, redelivery_factor=2)
        await client.queue("jobs").send_many(JOBS)
        done: asyncio.Queue[str] = asyncio.Queue()
        workers = [asyncio.create_task(work(client, f"worker {number}", done)) for number in (1, 2, 3)]
        for _ in range(4):
            print("done:", await done.get())
        async with client.queue("_DMQ").receive() as given_up:
            job = await given_up.next(timeout=10)
            print(f"given up: {job.data!r} after {job.dead[0].deliveries} deliveries")
            await job.confirm()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


holdfast.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
