"""How tests wait: for the thing, never for a time to pass. `tests/waiting.py` has what waits."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parents[2]

MOMENT = "the moment of a kill is what is tried"
REPEATS = "a program that was refused repeats it after a pause"
PACE = "a load is paced, or slow work is simulated"
POLLS = "it polls, with a deadline, for a process that is started or ended"

# Every sleep there is: how many of a file, and why each is no waiting for something that could be waited for.
SLEEPS = {
    "tests/waiting.py": (3, "this is what polls, and what lets the loop turn"),
    "tests/bench/alert_rules.py": (1, PACE),
    "tests/unit/simulation/clusters/test_process.py": (1, "in simulated time"),
    "tests/bench/backlog.py": (1, POLLS),
    "tests/bench/cluster_channel.py": (1, REPEATS),
    "tests/bench/child.py": (1, POLLS),
    "tests/bench/continuity.py": (2, POLLS),
    "tests/bench/end_to_end.py": (1, PACE),
    "tests/bench/fairness.py": (1, PACE),
    "tests/bench/peers/rabbitmq.py": (1, POLLS),
    "tests/bench/relay.py": (2, POLLS),
    "tests/contract/test_channel_carrying.py": (1, REPEATS),
    "tests/contract/test_client_credit.py": (1, "a job is work of so long"),
    "tests/contract/test_client_expired.py": (1, "the program works, and gives the loop no time, until events have expired"),
    "tests/contract/test_jetstream.py": (1, REPEATS),
    "tests/cluster_faults.py": (2, "for how long a process is paused is what is tried"),
    "tests/cluster_load.py": (1, PACE),
    "tests/faults/test_actions_killed.py": (3, f"{PACE}; {MOMENT}; the last events are read before the load ends"),
    "tests/faults/test_bad_company.py": (1, "a program in a text polls its server before it says that it is ready"),
    "tests/faults/test_cluster_cut_off.py": (1, "for how long a machine is cut off is what is tried"),
    "tests/faults/test_cluster_flow.py": (1, PACE),
    "tests/faults/test_cluster_killed.py": (2, f"{PACE}; {MOMENT}"),
    "tests/faults/test_cluster_orders.py": (2, PACE),
    "tests/faults/test_deduplicate_killed.py": (2, f"{REPEATS}; {MOMENT}"),
    "tests/faults/test_full_disk.py": (1, REPEATS),
    "tests/faults/test_jetstream_cluster.py": (2, REPEATS),
    "tests/faults/test_relay_killed.py": (2, f"{PACE}; for how long a relay stands still is what is tried"),
    "tests/faults/test_server_killed.py": (1, MOMENT),
    "tests/faults/test_server_killed_using_features.py": (3, f"{PACE}; {MOMENT}"),
    "tests/faults/test_sessions_killed.py": (1, PACE),
    "tests/faults/test_several_managers_killed.py": (1, MOMENT),
    "tests/faults/test_joint_transactions_killed.py": (1, MOMENT),
    "tests/faults/test_cluster_joint_transactions.py": (1, MOMENT),
    "tests/faults/test_settled_once_killed.py": (1, "for how long a recipient is away is what is tried"),
    "tests/faults/test_storage_killed.py": (1, REPEATS),
    "tests/faults/test_transactions_killed.py": (5, f"{PACE}; {MOMENT}"),
    "tests/nats_server.py": (2, POLLS),
    "tests/scenario/test_actions.py": (1, PACE),
    "tests/scenario/test_forgotten_transaction.py": (1, REPEATS),
    "tests/scenario/test_recorder_forwarding.py": (2, f"{PACE}; {MOMENT}"),
    "tests/scenario/test_storage_places.py": (1, REPEATS),
    "tests/scenario/work_process.py": (1, PACE),
    "tests/server_process.py": (1, POLLS),
    "tests/spark/cluster.py": (1, POLLS),
    "tests/spark/killing.py": (1, MOMENT),
    "tests/spark/lives.py": (1, POLLS),
    "tests/spark/producing.py": (1, PACE),
    "tests/spark/test_power_cut.py": (1, MOMENT),
    "tests/unit/actions/kinds/test_webhook.py": (2, PACE),
}


def test_no_test_sleeps_to_wait_for_something() -> None:
    found = {str(path.relative_to(HERE)): len(re.findall(r"\bsleep\(", path.read_text())) for path in HERE.glob("tests/**/*.py")}
    here = str(Path(__file__).relative_to(HERE))
    sleeping = {file: count for file, count in found.items() if count and file != here}

    assert sleeping == {file: count for file, (count, _) in SLEEPS.items()}, (
        "wait for the thing (tests/waiting.py); where there is nothing to wait for, say here why"
    )
