"""The package on its way to nodes that lack it (D5): in processes that cannot import it, without a session."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from pyspark import cloudpickle

import holdfast
from holdfast.spark.register import FORMATS
from holdfast.spark.shipping import NEEDED, archive_of, shipped

OPTIONS = {"url": "holdfast://nowhere", "destinations": "orders", "subscription": "lake", "columns": "id,data"}
# A node: Spark's packages can be imported, this one cannot.
NODE = """
import importlib.util, pathlib, pickle, sys
home = {home!r}
sys.path = [each for each in sys.path if pathlib.Path(each or ".").resolve() != pathlib.Path(home)]
assert importlib.util.find_spec("holdfast") is None
given = pickle.loads(pathlib.Path({given!r}).read_bytes())
from pyspark import cloudpickle
"""


@pytest.fixture(scope="module")
def archive() -> bytes:
    return archive_of()


def at_a_node(given: Path, script: str) -> str:
    home = str(Path(holdfast.__file__).parents[1])
    program = NODE.format(home=home, given=str(given)) + script
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=given.parent, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_data_source_brings_the_package_to_a_planner_and_its_reader_to_an_executor_d5(archive: bytes, tmp_path: Path) -> None:
    source = shipped("holdfast", *FORMATS["holdfast"], archive)
    (tmp_path / "class").write_bytes(cloudpickle.dumps(source))  # type: ignore[no-untyped-call]

    planned = at_a_node(
        tmp_path / "class",
        f"""
source = given({OPTIONS!r})
pathlib.Path("source").write_bytes(cloudpickle.dumps(source))
reader = source.streamReader(source.schema())
pathlib.Path("reader").write_bytes(cloudpickle.dumps((reader, source)))
print(given.name(), ",".join(source.schema().names), type(reader).__name__)
""",
    )
    read = at_a_node(
        tmp_path / "reader",
        """
reader, source = given
print(type(reader).__module__, type(reader).__name__, type(reader.getDefaultReadLimit()).__name__, source.name())
""",
    )

    assert planned.split() == ["holdfast", "id,data", "HoldfastStreamReader"]
    assert read.split() == ["holdfast.spark.source.stream_reader", "HoldfastStreamReader", "ReadAllAvailable", "holdfast"]


def test_the_archive_holds_what_a_client_needs_and_is_small_enough_to_travel(archive: bytes) -> None:
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        names = opened.getnames()

    assert "holdfast/spark/format.py" in names
    assert {name for name in NEEDED if any(each.startswith(name) for each in names)} == set(NEEDED)
    assert len(archive) < 2_000_000
