"""The options of commands on a cluster that runs: which one is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import expanded

Of = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="The folder of a cluster on this machine, which is asked instead of --url.", parser=expanded
    ),
]


def url_of(data: Path | None, url: str) -> str:
    from holdfast.cli.cluster import layout

    return url if data is None else layout.read(data).url
