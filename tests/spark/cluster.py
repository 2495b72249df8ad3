"""Real Spark from the wheel of pyspark, all on loopback: a standalone cluster, a Connect server, and a Python for their nodes
that cannot import this package."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from holdfast.spark.java import find_java
from tests.server_process import free_port

HOST = "127.0.0.1"
WHEEL = Path(pyspark.__file__).parent
START_S_MAX = 120
STOP_S_MAX = 10
# Small and quickly started: two cores have to do for all of it.
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
WORKERS = ("worker-1", "worker-2")


def bare_python(folder: Path) -> Path:
    """A Python that has the packages of this one, but for those that are only linked into it, as this project is.

    Folders that a .pth file adds are not searched for further .pth files, and such a file is what links the project.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    libraries = next(folder.glob("lib/python*/site-packages"))
    (libraries / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _link_spark(_spark_home(folder / "bin" / "python"))
    return folder / "bin" / "python"


def _spark_home(python: Path) -> Path:
    return python.parents[1] / "spark"


def _link_spark(home: Path) -> None:
    """The wheel's programs, without its Python in a zip file, which every process that is started would compile again."""
    home.mkdir()
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(WHEEL / name)


def environment(python: Path) -> dict[str, str]:
    """Of nodes and of drivers: which Spark, which Java, and with which Python tasks and planners run."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_REMOTE")}
    return {
        **kept,
        "SPARK_HOME": str(_spark_home(python)),
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "768m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL,
        "PYSPARK_PYTHON": str(python),
    }


@contextmanager
def standalone(folder: Path, python: Path) -> Iterator[str]:
    """A master and two workers, each a process; the URL of the master."""
    port = free_port()
    url = f"spark://{HOST}:{port}"
    here = ("--host", HOST, "--webui-port", "0")
    with ExitStack() as running:
        master = ("bin/spark-class", "org.apache.spark.deploy.master.Master", *here, "--port", str(port))
        started = running.enter_context(_process(folder / "master", python, *master))
        started.wait_until(lambda: "New state: ALIVE" in started.log)
        for name in WORKERS:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name / "work"))
            worker = ("bin/spark-class", "org.apache.spark.deploy.worker.Worker", *here, *size, url)
            running.enter_context(_process(folder / name, python, *worker))
        started.wait_until(lambda: len(re.findall("Registering worker", started.log)) == len(WORKERS))
        yield url


@contextmanager
def connect_server(folder: Path, python: Path) -> Iterator[str]:
    """A server of Spark Connect that runs what it is sent by itself; the URL for its clients."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": SMALL,
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submitted = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *given)
    with _process(folder / "connect", python, "bin/spark-submit", *submitted) as started:
        started.wait_until(lambda: _is_listening(port))
        yield f"sc://{HOST}:{port}"


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        patience = time.monotonic() + START_S_MAX
        while not is_ready():
            assert self.process.poll() is None, f"it ended:\n{self.log[-3000:]}"
            assert time.monotonic() < patience, f"it does not start:\n{self.log[-3000:]}"
            time.sleep(0.05)

    def end(self) -> None:
        """A worker ends its executors when it is asked to end; what is left of them after a while is killed with it."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def _process(folder: Path, python: Path, program: str, *arguments: str) -> Iterator[Running]:
    """One process in a folder of its own. It ends with the block, whatever happens."""
    folder.mkdir()
    command = [str(WHEEL / program), *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(python), start_new_session=True
        )
    running = Running(process, folder)
    try:
        yield running
    finally:
        running.end()


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
