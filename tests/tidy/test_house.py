"""The house rules, as tests: what a reader may rely on in every file of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast import errors
from holdfast.actions import errors as actions_errors
from holdfast.continuity import errors as continuity_errors
from holdfast.relay import errors as relay_errors

TOP = Path(__file__).resolve().parents[2]
SOURCE = TOP / "src" / "holdfast"
MODULES = sorted(path for folder in ("src", "tests", "examples") for path in (TOP / folder).rglob("*.py"))

LINES_MAX = 400
NAMES_SAYING_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
UNFINISHED = re.compile("|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bX" + r"XX\b")))  # in pieces, or it would find itself
# Where a neighbour's words are spoken, at the edge to it.
FOREIGN_WORDS = {SOURCE / "channel" / "jetstream": {"ack", "consumer", "leader"}}
MACHINES = [
    *(SOURCE / name for name in ("destination", "session", "access", "cluster", "bus/link")),
    *SOURCE.glob("**/machines"),
]
OUTSIDE_WORLD = {"time", "random", "os", "asyncio", "socket", "threading", "secrets", "datetime", "pathlib", "uuid"}


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


def test_a_module_is_short_named_for_what_it_holds_and_finished() -> None:
    texts = {path: path.read_text() for path in MODULES}

    long = [f"split {_name(path)} by noun" for path, text in texts.items() if len(text.splitlines()) > LINES_MAX]
    nameless = [f"name {_name(path)} for what it holds" for path in texts if path.stem in NAMES_SAYING_NOTHING]
    unfinished = [f"finish {_name(path)}" for path, text in texts.items() if UNFINISHED.search(text)]

    assert long + nameless + unfinished == []


def _replaced_words() -> dict[str, str]:
    """Return the words that the glossary replaces, and by which: `AckRange` has one, `package` has none."""
    rows = re.findall(r"^\| (.+?) \| .+? \| (.*?) ?\|$", (TOP / "docs" / "glossary.md").read_text(), re.MULTILINE)
    return {word: used for used, replaced in rows[1:] for word in replaced.split(", ") if re.fullmatch("[a-z]+", word)}


def test_classes_and_functions_use_the_words_of_the_glossary() -> None:
    replaced = _replaced_words()

    found = [
        f"{_name(path)}: {name} says {word}, which is {replaced[word]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in _defined_names(ast.parse(path.read_text()))
        for word in sorted((replaced.keys() & _words(name)) - _foreign_words(path))
    ]

    assert {"ack", "consumer", "broker"} <= replaced.keys()
    assert found == []


def _foreign_words(path: Path) -> set[str]:
    return {word for folder, words in FOREIGN_WORDS.items() if folder in path.parents for word in words}


def test_a_machine_imports_no_clock_dice_disk_loop_or_socket() -> None:
    modules = sorted(path for folder in MACHINES for path in folder.rglob("*.py"))

    found = {_name(path): sorted(OUTSIDE_WORLD.intersection(_imported(ast.parse(path.read_text())))) for path in modules}

    assert len(found) > len(MACHINES)
    assert {name: imported for name, imported in found.items() if imported} == {}


def test_a_node_begins_no_task_that_is_not_supervised() -> None:
    modules = [path for path in sorted((SOURCE / "node").rglob("*.py")) if path.stem != "supervision"]

    assert modules
    assert [_name(path) for path in modules if _attributes(path) & {"create_task", "ensure_future", "TaskGroup"}] == []


def _attributes(path: Path) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}


def _errors(kind: type[errors.HoldfastError] = errors.HoldfastError) -> list[type[errors.HoldfastError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _errors(child))]


def test_every_error_has_a_code_of_its_own() -> None:
    assert {continuity_errors.NotTaken, relay_errors.Restored, actions_errors.BadRules} <= set(_errors())  # of programs
    codes = [kind.code for kind in _errors()]

    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(kind) for kind in _errors())


def test_every_error_code_and_its_family_are_in_the_operating_guide_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z-]+) \| \S", (TOP / "docs" / "operating.md").read_text(), re.MULTILINE)

    assert dict(rows).items() >= {kind.code: kind.family for kind in _errors()}.items()
    assert {code for code, family in rows if family in {kind.family for kind in _errors()}} == {kind.code for kind in _errors()}


def test_the_changelog_has_a_place_for_what_is_not_released_yet() -> None:
    assert re.search(r"^## \[?Unreleased\]?$", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_promise_is_numbered_names_its_requirement_and_the_tests_that_show_it() -> None:
    text = (TOP / "docs" / "promises.md").read_text()
    row = re.compile(r"^\| (P\d+) \| .+? \| [A-E]\d+(?:, [A-E]\d+)* \| `tests/.+` \|$", re.MULTILINE)

    numbers = row.findall(text)

    assert numbers == [f"P{place}" for place in range(1, len(numbers) + 1)]
    assert len(numbers) == len(re.findall(r"^\| P\d+", text, re.MULTILINE)) > 0


def test_every_line_of_continuity_names_tests_that_are_there() -> None:
    text = (TOP / "docs" / "promises.md").read_text().partition("## Continuity, line by line")[2]

    lines = re.findall(r"^\| \((\d+)\) \| .+? \| (`tests/.+`) \|$", text, re.MULTILINE)
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)

    assert [int(number) for number, _ in lines] == list(range(1, 36))
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in (TOP / file).read_text()] == []


def test_every_line_of_relays_and_actions_names_tests_that_are_there() -> None:
    text = (TOP / "docs" / "promises.md").read_text().partition("## Relays and actions, line by line")[2]

    lines = re.findall(r"^\| \(R(\d+)\) \| .+? \| (`tests/.+`) \|$", text, re.MULTILINE)
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)

    assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == len(re.findall(r"^\| \(R", text, re.MULTILINE)) > 20
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in (TOP / file).read_text()] == []


def test_every_promise_is_shown_by_a_test_that_does_not_wait_for_a_long_run() -> None:
    rows = re.findall(r"^\| (P\d+) \| (.+) \|$", (TOP / "docs" / "promises.md").read_text(), re.MULTILINE)

    assert rows
    assert [number for number, row in rows if not any(map(_is_short, re.findall(r"`(tests/[\w/]+\.py)`", row)))] == []


def _is_short(file: str) -> bool:
    """Tell whether `make test` runs a test of this file."""
    statements = ast.parse((TOP / file).read_text()).body
    is_long = any("mark.long" in ast.unparse(each) for each in statements if isinstance(each, ast.Assign))
    tests = [each for each in statements if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[:5] == "test_"]
    return not is_long and any("pytest.mark.long" not in map(ast.unparse, each.decorator_list) for each in tests)


ROOM_MODULES_MAX = 13
ROOMS = sorted({path.parent for path in SOURCE.rglob("*.py")} - {SOURCE})


def test_a_room_holds_few_modules_and_says_in_a_sentence_what_for() -> None:
    full = [f"make rooms in {_name(room)}" for room in ROOMS if len(_modules(room)) > ROOM_MODULES_MAX]
    silent = [f"say what {_name(room)} is for" for room in ROOMS if not _sentence(room).endswith(".")]

    assert full + silent == []


def test_the_architecture_draws_every_room_with_its_sentence_and_no_other() -> None:
    drawing = (TOP / "docs" / "architecture.md").read_text().partition("## The rooms")[2].split("```")[1]

    drawn = re.findall(r"^ *(\w+)/ +(\S.*)$", drawing, re.MULTILINE)

    assert sorted(drawn) == sorted((room.name, _sentence(room)) for room in ROOMS)


def _modules(room: Path) -> list[Path]:
    return [path for path in room.glob("*.py") if path.stem != "__init__"]


def _sentence(room: Path) -> str:
    """Return the first paragraph of a room's docstring, in one line."""
    return (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").split("\n\n")[0].replace("\n", " ")
