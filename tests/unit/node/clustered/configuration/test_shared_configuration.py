"""Nodes that share a bucket: what each does when it starts, when something changes, and when the bucket is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bus.bucket import Bucket, Entry, MemoryBucket
from holdfast.cluster.configuration import Value
from holdfast.errors import BadSetting, Unavailable
from holdfast.node.clustered.configuration import shared_configuration
from holdfast.node.clustered.configuration.shared_configuration import ESSENTIAL, SharedConfiguration
from holdfast.node.clustered.configuration.shared_documents import GivenUsers
from holdfast.node.settings import NodeSettings
from tests.waiting import until

VALUES: dict[str, Value] = {"managers": "m1", "managers.m1": "a, b", "size_mib": 256}
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g"


def users_of(*names: str) -> str:
    return "".join(f'[users.{name}]\npassword = "{HASH}"\n' for name in names)


class Cluster:
    """Nodes on one bucket, which may be away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bucket = MemoryBucket()
        self.is_away = False

    async def open_bucket(self) -> Bucket:
        if self.is_away:
            raise Unavailable("the bucket is away")
        return self.bucket

    async def start(
        self,
        name: str,
        *,
        essential: dict[str, Value] | None = None,
        users: str | None = None,
        running: list[str] | None = None,
        **settings: int,
    ) -> SharedConfiguration:
        data = self.folder / name
        data.mkdir(exist_ok=True)
        given = None if users is None else GivenUsers(data / "users.toml", users)

        async def others(digest: bytes) -> list[str]:
            return running or []

        node = NodeSettings(name=name, **settings)  # type: ignore[arg-type]
        return await SharedConfiguration.open(
            data, {**VALUES, **(essential or {})}, node, given, self.open_bucket, None if running is None else others
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


# --- essential -----------------------------------------------------------------------------------------------------------


async def test_the_first_node_says_what_is_essential(cluster: Cluster) -> None:
    first = await cluster.start("a")
    second = await cluster.start("b")

    assert ESSENTIAL in cluster.bucket.entries
    assert first.digest == second.digest


async def test_a_node_that_differs_is_refused_with_each_key_and_both_values(cluster: Cluster) -> None:
    await cluster.start("a")

    with pytest.raises(BadSetting) as refused:
        await cluster.start("b", essential={"size_mib": 512, "managers.m2": "c"})

    assert "size_mib is 512 here and 256 in the cluster" in str(refused.value)
    assert "managers.m2 is c here and (not set) in the cluster" in str(refused.value)
    assert refused.value.fields["setting"] == "managers.m2, size_mib"


async def test_essential_settings_are_replaced_when_it_is_said_and_no_other_node_runs(cluster: Cluster) -> None:
    before = (await cluster.start("a")).digest
    with pytest.raises(BadSetting, match="They are not replaced: b run with other ones"):
        await cluster.start("a", essential={"size_mib": 512}, running=["b"])

    replaced = await cluster.start("a", essential={"size_mib": 512}, running=[])

    assert replaced.digest != before
    with pytest.raises(BadSetting, match="size_mib is 256 here and 512 in the cluster"):
        await cluster.start("b")


async def test_a_node_that_runs_while_they_are_replaced_stops(cluster: Cluster) -> None:
    cut_off = await cluster.start("a")

    await cluster.start("b", essential={"size_mib": 512}, running=[])

    assert cut_off.failed.is_set()
    assert "size_mib is 256 here and 512 in the cluster" in str(cut_off.failure)


# --- settings ------------------------------------------------------------------------------------------------------------


async def test_options_of_the_first_node_are_acquired_by_the_second(cluster: Cluster) -> None:
    first = await cluster.start("a", session_grace_ms=2_000)
    second = await cluster.start("b")

    assert first.settings.session_grace_ms == second.settings.session_grace_ms == 2_000
    assert second.settings.name == "b"
    assert first.settings_version == second.settings_version == 1


async def test_a_second_node_with_another_option_is_refused_with_both_values(cluster: Cluster) -> None:
    await cluster.start("a", session_grace_ms=2_000)

    with pytest.raises(BadSetting, match=r"edited here .* session_grace_ms is 3000 here and 2000 in the cluster"):
        await cluster.start("b", session_grace_ms=3_000)


async def test_a_change_reaches_all_nodes_and_survives_their_restarts(cluster: Cluster) -> None:
    one, other = await cluster.start("a", session_grace_ms=2_000), await cluster.start("b")
    heard: list[int] = []
    other.on_settings = lambda settings: heard.append(settings.session_grace_ms)

    assert await one.change("session-grace-ms", "4000") == 2

    assert heard == [4_000]
    assert one.settings.session_grace_ms == other.settings.session_grace_ms == 4_000
    one.close()
    other.close()
    again = await cluster.start("a", session_grace_ms=2_000)  # it is started as it was before
    assert again.settings.session_grace_ms == 4_000
    assert (await cluster.start("b")).settings.session_grace_ms == 4_000


async def test_a_node_that_was_away_during_a_change_fetches_it(cluster: Cluster) -> None:
    one = await cluster.start("a")
    (await cluster.start("b")).close()
    await one.change("stage_idle_ms", "9000")

    assert (await cluster.start("b")).settings.stage_idle_ms == 9_000


async def test_an_edit_of_one_node_while_it_was_away_is_for_all(cluster: Cluster) -> None:
    one = await cluster.start("a", session_grace_ms=2_000)
    (await cluster.start("b")).close()

    await cluster.start("b", session_grace_ms=3_000)

    assert one.settings.session_grace_ms == 3_000
    assert one.settings_version == 2


async def test_what_was_edited_on_both_sides_is_refused_with_both(cluster: Cluster) -> None:
    one = await cluster.start("a", session_grace_ms=2_000)
    (await cluster.start("b")).close()
    await one.change("session_grace_ms", "4000")

    with pytest.raises(BadSetting, match=r"version 2\): session_grace_ms is 3000 here and 4000 in the cluster"):
        await cluster.start("b", session_grace_ms=3_000)
    assert one.settings.session_grace_ms == 4_000


async def test_an_option_that_is_given_anew_after_a_change_online_is_refused_although_the_node_has_heard_of_it(
    cluster: Cluster,
) -> None:
    one = await cluster.start("a", session_grace_ms=2_000)
    await one.change("session_grace_ms", "4000")
    one.close()

    with pytest.raises(BadSetting, match="session_grace_ms is 3000 here and 4000 in the cluster"):
        await cluster.start("a", session_grace_ms=3_000)
    assert (await cluster.start("a", session_grace_ms=4_000)).settings_version == 2


async def test_a_copy_that_was_edited_by_hand_counts_as_an_edit(cluster: Cluster) -> None:
    one = await cluster.start("a")
    (await cluster.start("b")).close()
    file = cluster.folder / "b" / "acquired-settings.toml"
    file.write_text(file.read_text() + "parts_max = 7\n")

    (await cluster.start("b")).close()
    assert one.settings.parts_max == 7

    await one.change("parts_max", "8")
    file.write_text(file.read_text().replace("parts_max = 7", "parts_max = 9"))
    with pytest.raises(BadSetting, match="parts_max is 9 here and 8 in the cluster"):
        await cluster.start("b")


async def test_default_takes_a_setting_back(cluster: Cluster) -> None:
    one = await cluster.start("a", session_grace_ms=2_000)

    await one.change("session_grace_ms", "default")

    assert one.settings.session_grace_ms == NodeSettings().session_grace_ms


async def test_a_change_to_what_it_is_makes_no_version(cluster: Cluster) -> None:
    one = await cluster.start("a", session_grace_ms=2_000)

    assert await one.change("session_grace_ms", "2000") == 1


async def test_a_change_that_cannot_be_changes_nothing(cluster: Cluster) -> None:
    one = await cluster.start("a")

    with pytest.raises(BadSetting, match="must be positive"):
        await one.change("session_grace_ms", "0")
    assert one.settings_version == 1


async def test_two_changes_at_once_are_both_there(cluster: Cluster) -> None:
    one = await cluster.start("a")
    real, changed = cluster.bucket.get, list[bool]()

    async def get(key: str) -> Entry | None:
        """Another node is quicker, once."""
        found = await real(key)
        if not changed:
            changed.append(True)
            await other.change("stage_idle_ms", "9000")
        return found

    other = await cluster.start("b")
    cluster.bucket.get = get  # type: ignore[method-assign]

    await one.change("parts_max", "7")

    assert (one.settings.parts_max, one.settings.stage_idle_ms) == (7, 9_000)
    assert one.settings_version == 3


# --- users ---------------------------------------------------------------------------------------------------------------


async def test_users_of_one_node_are_those_of_all(cluster: Cluster) -> None:
    await cluster.start("a", users=users_of("alice"))
    second = await cluster.start("b")

    assert second.users is not None
    assert list(second.users.by_name) == ["alice"]


async def test_without_users_anywhere_there_are_none(cluster: Cluster) -> None:
    assert (await cluster.start("a")).users is None


async def test_a_change_of_users_reaches_all_and_survives(cluster: Cluster) -> None:
    one, other = await cluster.start("a", users=users_of("alice")), await cluster.start("b", users=users_of("alice"))
    heard: list[list[str]] = []
    other.on_users = lambda users: heard.append(list(users.by_name))

    await one.change("users", users_of("alice", "bob"))

    assert heard == [["alice", "bob"]]
    one.close()
    other.close()
    again = await cluster.start("b", users=users_of("alice"))
    assert again.users is not None and list(again.users.by_name) == ["alice", "bob"]


async def test_users_files_that_differ_are_refused_with_both_and_without_secrets(cluster: Cluster) -> None:
    await cluster.start("a", users=users_of("alice"))

    with pytest.raises(BadSetting) as refused:
        await cluster.start("b", users=users_of("bob"))

    said = str(refused.value)
    assert "users.toml (users bob; digest" in said
    assert "in the cluster (version 1: users alice; digest" in said
    assert "argon2" not in said


async def test_a_users_file_that_is_edited_and_read_again_is_for_all(cluster: Cluster) -> None:
    one, other = await cluster.start("a", users=users_of("alice")), await cluster.start("b", users=users_of("alice"))

    await one.reload_users(GivenUsers(Path("users.toml"), users_of("alice", "bob")))
    assert other.users is not None and list(other.users.by_name) == ["alice", "bob"]

    with pytest.raises(BadSetting, match="users were edited"):
        await other.reload_users(GivenUsers(Path("users.toml"), users_of("carol")))
    assert other.users is not None and list(other.users.by_name) == ["alice", "bob"]


async def test_users_that_cannot_be_read_are_refused(cluster: Cluster) -> None:
    one = await cluster.start("a", users=users_of("alice"))

    with pytest.raises(BadSetting, match="not TOML"):
        await one.change("users", "[")
    assert one.users_version == 1


# --- the bucket is away --------------------------------------------------------------------------------------------------


async def test_a_node_starts_from_its_copies_alone(cluster: Cluster) -> None:
    one = await cluster.start("a", session_grace_ms=2_000, users=users_of("alice"))
    await one.change("session_grace_ms", "4000")
    one.close()
    cluster.is_away = True

    alone = await cluster.start("a", session_grace_ms=2_000, users=users_of("alice"))

    assert alone.settings.session_grace_ms == 4_000
    assert alone.users is not None and list(alone.users.by_name) == ["alice"]
    assert not alone.is_joined
    with pytest.raises(Unavailable, match="cannot be changed now"):
        await alone.change("session_grace_ms", "1")
    alone.close()


async def test_a_node_without_a_copy_does_not_start_alone(cluster: Cluster) -> None:
    cluster.is_away = True

    with pytest.raises(Unavailable, match="this node has no copy of it"):
        await cluster.start("a")


async def test_a_node_that_differs_from_its_own_copy_does_not_start_alone(cluster: Cluster) -> None:
    (await cluster.start("a")).close()
    cluster.is_away = True

    with pytest.raises(BadSetting, match="size_mib is 512 here and 256 in the cluster"):
        await cluster.start("a", essential={"size_mib": 512})


async def test_a_node_that_started_alone_joins_later_and_hears_what_changed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_configuration, "JOIN_AGAIN_S", 0.01)
    other = await cluster.start("b")
    (await cluster.start("a")).close()
    cluster.is_away = True
    alone = await cluster.start("a")
    heard: list[int] = []
    alone.on_settings = lambda settings: heard.append(settings.session_grace_ms)
    await other.change("session_grace_ms", "4000")

    cluster.is_away = False
    await until(lambda: alone.is_joined, "it joins")

    assert heard == [4_000]


async def test_a_node_that_started_alone_and_differs_stops(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_configuration, "JOIN_AGAIN_S", 0.01)
    (await cluster.start("a")).close()
    cluster.is_away = True
    alone = await cluster.start("a")
    cluster.is_away = False
    await cluster.start("b", essential={"size_mib": 512}, running=[])

    await alone.failed.wait()

    assert "size_mib is 256 here and 512 in the cluster" in str(alone.failure)


async def test_what_somebody_else_has_written_is_refused(cluster: Cluster) -> None:
    await cluster.bucket.put(ESSENTIAL, b"something else")

    with pytest.raises(BadSetting, match="it was written by something else"):
        await cluster.start("a")
