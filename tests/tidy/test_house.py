"""The house rules, as tests: what a reader may rely on in every file of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import errors

TOP = Path(__file__).resolve().parents[2]
SOURCE = TOP / "src" / "holdfast"
MODULES = sorted(path for folder in ("src", "tests", "examples") for path in (TOP / folder).rglob("*.py"))
DOCUMENTS = sorted([*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")])

LINES_MAX = 400
NAMES_SAYING_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
UNFINISHED = re.compile("|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bX" + r"XX\b")))  # in pieces, or it would find itself
# What the glossary replaces, as whole words of a class or function name: `AckRange` is found, `package` is not.
REPLACED_WORDS = {
    "ack": "confirm or receipt",
    "nack": "release or reject",
    "unacked": "in flight",
    "consumer": "recipient",
    "subscriber": "recipient",
    "broker": "client manager or message manager",
    "wal": "journal",
    "exchange": "topic",
    "failover": "takeover",
    "leader": "primary",
}
# Where a neighbour's words are spoken, at the edge to it.
FOREIGN_WORDS = {SOURCE / "channel" / "jetstream": {"ack", "consumer", "leader"}}
MACHINES = [SOURCE / "destination", SOURCE / "session", SOURCE / "access"]
OUTSIDE_WORLD = {"time", "random", "os", "asyncio", "socket", "threading", "secrets", "datetime", "pathlib", "uuid"}
LINK = re.compile(r"\]\(([^)#\s]+)\)")
BESIDE = {path.stem for path in (TOP / "src").iterdir()} - {SOURCE.stem}  # packages that others find by their names
MENTIONED_FILE = re.compile(r"`((?:src|tests|docs|examples|\.ci)/[\w./-]+)`")


def _name(path: Path) -> str:
    return str(path.relative_to(TOP))


def _words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", identifier)}


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_is_short_named_for_what_it_holds_and_finished(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= LINES_MAX, f"split {_name(path)} by noun"
    assert path.stem not in NAMES_SAYING_NOTHING
    assert not UNFINISHED.search(text)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=_name)
def test_classes_and_functions_use_the_words_of_the_glossary(path: Path) -> None:
    foreign = {word for folder, words in FOREIGN_WORDS.items() if folder in path.parents for word in words}
    found = {name: (REPLACED_WORDS.keys() & _words(name)) - foreign for name in _defined_names(ast.parse(path.read_text()))}

    replaced = {name: [REPLACED_WORDS[word] for word in words] for name, words in found.items() if words}

    assert replaced == {}


@pytest.mark.parametrize("path", sorted(path for folder in MACHINES for path in folder.rglob("*.py")), ids=_name)
def test_a_machine_imports_no_clock_dice_disk_loop_or_socket(path: Path) -> None:
    assert OUTSIDE_WORLD.isdisjoint(_imported(ast.parse(path.read_text())))


def _errors(kind: type[errors.HoldfastError] = errors.HoldfastError) -> list[type[errors.HoldfastError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _errors(child))]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in _errors()]

    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(kind) for kind in _errors())


def test_every_error_code_and_its_family_are_in_the_operating_guide_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z-]+) \| \S", (TOP / "docs" / "operating.md").read_text(), re.MULTILINE)

    assert dict(rows).items() >= {kind.code: kind.family for kind in _errors()}.items()
    assert {code for code, family in rows if family in {kind.family for kind in _errors()}} == {kind.code for kind in _errors()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_a_document_points_only_to_files_that_exist(path: Path) -> None:
    text = path.read_text()
    links = [(path.parent / target) for target in LINK.findall(text) if "://" not in target]
    mentions = [(TOP / target) for target in MENTIONED_FILE.findall(text)]

    assert [_name(target.resolve()) for target in (*links, *mentions) if not target.exists()] == []


def test_the_changelog_has_a_place_for_what_is_not_released_yet() -> None:
    assert re.search(r"^## \[?Unreleased\]?$", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_promise_is_numbered_names_its_requirement_and_the_tests_that_show_it() -> None:
    text = (TOP / "docs" / "promises.md").read_text()
    row = re.compile(r"^\| (P\d+) \| .+? \| [A-E]\d+(?:, [A-E]\d+)* \| `tests/.+` \|$", re.MULTILINE)

    numbers = row.findall(text)

    assert numbers == [f"P{place}" for place in range(1, len(numbers) + 1)]
    assert len(numbers) == len(re.findall(r"^\| P\d+", text, re.MULTILINE)) > 0


LARGE = [
    "client",
    "node",
    "destination",
    "spark",
    *(f"spark/{part}" for part in ("source", "columns", "sink", "lake", "pipelines", "pipelines/auditing")),
]


@pytest.mark.parametrize("folder", LARGE)
def test_the_map_of_a_large_folder_names_every_module_of_it_and_no_other(folder: str) -> None:
    architecture = (TOP / "docs" / "architecture.md").read_text()
    drawn = architecture.partition(f"`{folder}/`, ")[2].partition("\n\n`")[0].partition("\n## ")[0]

    assert sorted(set(re.findall(r"`(\w+)`", drawn)) - BESIDE) == sorted(
        path.stem for path in (SOURCE / folder).glob("*.py") if path.stem != "__init__"
    )
