"""The documents: what they point to is there, and the site has a place for each of them."""

from __future__ import annotations

import inspect
import pkgutil
import re
import unicodedata
from pathlib import Path

import holdfast
import holdfast.errors

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
DOCUMENTS = sorted([*TOP.glob("*.md"), *DOCS.rglob("*.md")])

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTIONED_FILE = re.compile(r"`((?:src|tests|docs|examples|packaging|\.ci)/[\w./-]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
# A line of text, and right below it the first of a list or of a table. GitHub takes it for one; the site does not.
RUN_TOGETHER = re.compile(r"^(?![ |#>-]|\d+\. ).+\n((?:- |\d+\. |\| ).{0,40})", re.MULTILINE)
REFERENCE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def _name(path: Path) -> str:
    return str(path.relative_to(TOP))


def _prose(path: Path) -> str:
    return FENCED.sub("", path.read_text())


def _links(path: Path) -> list[tuple[Path, str]]:
    """The file and the anchor of each link to a file of the project."""
    links = [link.partition("#") for link in LINK.findall(_prose(path)) if "://" not in link]
    return [((path.parent / file).resolve() if file else path, anchor) for file, _, anchor in links]


def test_a_document_points_only_to_files_that_exist() -> None:
    mentioned = {path: [TOP / each for each in MENTIONED_FILE.findall(path.read_text())] for path in DOCUMENTS}

    missing = [
        f"{_name(path)}: {target}"
        for path in DOCUMENTS
        for target in (*mentioned[path], *(file for file, _ in _links(path)))
        if not target.exists()
    ]

    assert DOCUMENTS
    assert missing == []


def _anchors(path: Path) -> set[str]:
    """What a link may name behind `#`: a heading, as both GitHub and the site spell it, or an anchor that was set."""
    text = _prose(path)
    headings = [re.sub(r"\[(.+?)\]\(.+?\)|[`*]", r"\1", heading) for heading in HEADING.findall(text)]
    return {*NAMED_ANCHOR.findall(text), *(_on_github(each) for each in headings if _on_github(each) == _on_the_site(each))}


def _on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _on_the_site(heading: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def test_a_link_to_a_part_of_a_document_finds_it() -> None:
    anchored = [(path, file, anchor) for path in DOCUMENTS for file, anchor in _links(path) if anchor]

    assert anchored
    assert [f"{_name(path)}: {_name(file)}#{anchor}" for path, file, anchor in anchored if anchor not in _anchors(file)] == []


def test_a_list_and_a_table_begin_after_an_empty_line_or_the_site_runs_them_together() -> None:
    found = [f"{_name(path)}: {line}" for path in DOCUMENTS for line in RUN_TOGETHER.findall(_prose(path))]

    assert found == []


def test_the_navigation_has_every_document_once_and_no_other() -> None:
    navigation = (TOP / "mkdocs.yml").read_text().partition("\nnav:\n")[2]

    pages = re.findall(r"^ +- (?:.+: )?([\w./-]+\.md)$", navigation, re.MULTILINE)

    assert sorted(pages) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")), (
        "put a new document into the navigation, `nav` of mkdocs.yml"
    )


def _documented() -> set[str]:
    return {name for path in (DOCS / "reference").glob("*.md") for name in REFERENCE.findall(path.read_text())}


def test_the_reference_has_every_public_name() -> None:
    documented = _documented()
    modules = {each for each in ("holdfast.blocking", "holdfast.errors", "holdfast.testing") if each in documented}
    public = {f"holdfast.{name}" for name in holdfast.__all__ if name != "__version__"}
    of_errors = {f"holdfast.{name}" for name, each in vars(holdfast.errors).items() if inspect.isclass(each)}

    assert len(modules) == 3
    assert public - documented - of_errors - modules == set()


def test_the_reference_names_only_what_exists() -> None:
    assert [name for name in sorted(_documented()) if not _exists(name)] == []


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


# What is public for other parts of Holdfast, and not for programs.
NOT_FOR_PROGRAMS = {"KIND", "decide_anew", "decide_in_transaction", "head", "slice"}


def test_the_page_at_a_glance_names_every_member() -> None:
    page = (TOP / "docs" / "guide" / "at-a-glance.md").read_text()
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", page))))
    kinds = (
        holdfast.Client,
        holdfast.Queue,
        holdfast.Topic,
        holdfast.Incoming,
        holdfast.ReceivedEvent,
        holdfast.Event,
        holdfast.Worker,
    )

    members = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}

    assert members - NOT_FOR_PROGRAMS - named == set()
