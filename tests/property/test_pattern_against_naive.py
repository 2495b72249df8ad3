"""Wildcards against a matcher that tries every way, over all short patterns and all short names (requirement B15)."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadPattern
from holdfast.event.pattern import Pattern

Words = list[tuple[str, str]]  # each with the separator that follows, "" after the last


def words_of(text: str) -> Words:
    words, word = [], ""
    for letter in text:
        if letter in "./":
            words.append((word, letter))
            word = ""
        else:
            word += letter
    return [*words, (word, "")]


def naive(pattern: Words, name: Words) -> bool:
    (word, separator), rest = pattern[0], pattern[1:]
    if word == "**":
        if not rest:
            return True
        skipped = (count for count in range(1, len(name)) if name[count - 1][1] == separator)
        return naive(rest, name) or any(naive(rest, name[count:]) for count in skipped)
    if word == ">":
        return any(further for further, _ in name)
    if word == "*" and not name[0][0]:
        return False
    if not naive_word(word, name[0][0]):
        return False
    if not rest or len(name) == 1:
        return len(name) == 1 and all(further == "**" for further, _ in rest)
    return separator == name[0][1] and naive(rest, name[1:])


def naive_word(pattern: str, word: str) -> bool:
    if not pattern:
        return not word
    if pattern[0] == "*":
        return any(naive_word(pattern[1:], word[count:]) for count in range(len(word) + 1))
    return word != "" and pattern[0] in ("?", word[0]) and naive_word(pattern[1:], word[1:])


def every_text(letters: str, length_max: int) -> list[str]:
    return ["".join(chosen) for length in range(1, length_max + 1) for chosen in product(letters, repeat=length)]


def check(text: str, names: list[str]) -> bool:
    """Whether it is a pattern; then it agrees with the naive matcher about each name."""
    try:
        pattern = Pattern.glob(text)
    except BadPattern:
        assert "**" in text or ">" in text
        return False
    words = words_of(text)
    assert [name for name in names if pattern.matches(name)] == [name for name in names if naive(words, words_of(name))], text
    return True


def test_b15_every_short_wildcard_matches_the_names_that_a_naive_matcher_finds() -> None:
    names = every_text("ab.", 4)

    taken = sum(check(text, names) for text in every_text("a.*?", 4))

    assert taken > 200


def test_b15_any_number_of_words_with_both_separators_match_as_a_naive_matcher_finds() -> None:
    names = every_text("a./", 5)
    pieces = ["a", ".", "/", "**", ">", "*"]

    texts = {"".join(chosen) for length in range(1, 6) for chosen in product(pieces, repeat=length) if alternating(chosen)}

    assert sum(check(text, names) for text in sorted(texts)) > 200


def alternating(chosen: tuple[str, ...]) -> bool:
    return all((piece in "./") == (place % 2 == 1) for place, piece in enumerate(chosen))


NAMES = st.text("ab-./", min_size=1, max_size=12)
GLOBS = st.lists(st.sampled_from(["a", "b-", "*", "?", "**", ".", "/", "."]), min_size=1, max_size=9).map("".join)


@given(GLOBS, st.lists(NAMES, min_size=1, max_size=20))
def test_b15_longer_wildcards_match_as_a_naive_matcher_finds(text: str, names: list[str]) -> None:
    check(text, names)


@given(st.text(max_size=30), NAMES)
def test_any_text_is_a_pattern_or_refused_as_one(text: str, name: str) -> None:
    for made in (Pattern.glob, Pattern.regex):
        try:
            assert made(text).matches(name) in (True, False)
        except BadPattern as problem:
            assert problem.sentence
