"""A bare proxy on aiohttp, as a process: it passes each request to one server and its answer back.

python -m tests.bench.peers.aiohttp_proxy PORT SERVER_PORT
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

# Only `make bench` installs it (group `peers`): where it is missing, this party is left out.
aiohttp: Any = importlib.import_module("aiohttp")
web: Any = importlib.import_module("aiohttp.web")


async def session_of(application: Any) -> Any:
    async with aiohttp.ClientSession() as application["session"]:
        yield


def main(port: int, server: int) -> None:
    async def pass_on(request: Any) -> Any:
        url = f"http://127.0.0.1:{server}{request.path_qs}"
        async with request.app["session"].request(request.method, url, data=await request.read()) as answer:
            return web.Response(status=answer.status, body=await answer.read())

    application = web.Application()
    application.cleanup_ctx.append(session_of)
    application.router.add_route("*", "/{path:.*}", pass_on)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
