"""Names of units in texts: found at word boundaries, regardless of case and accents."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ku_rag.indexes import inverted
from ku_rag.indexes.name_index import NameIndex, matchable
from ku_rag.store import schema
from ku_rag.text.tokens import name_key, tokenize, words

snippets = st.text(st.sampled_from("abcAÉßﬁ東京ガ\u0301 _-.,'1"), max_size=8)
few_words = st.lists(st.sampled_from(["new", "york", "York", "Café", "東", "京", "it"]), max_size=5)


def index(*written):
    return NameIndex((name_key(name), row) for row, name in enumerate(written))


def naive(written, text):
    """The reference definition: the words of the name occur consecutively in the text."""
    spaced = f" {' '.join(words(text))} "
    return {
        row
        for row, name in enumerate(written)
        if matchable(name_key(name)) and f" {name_key(name)} " in spaced
    }


def test_all_names_that_stand_in_the_text_count():
    names = index("New York", "York", "New York City", "Newark")
    assert names.find(words("In new york, city of…")) == {0, 1, 2}
    assert names.find(words("The Duke of YORK")) == {1}
    assert names.find(words("Yorkshire, New-York")) == {0, 1}
    assert names.find(words("")) == set()


def test_spelling_does_not_matter():
    names = index("Café", "Straße", "Göteborg", "ﬁsh", "北京", "AC/DC")
    assert names.find(words("the CAFE")) == {0}
    assert names.find(words("STRASSE")) == {1}
    assert names.find(words("Go\u0308teborg, Fish")) == {2, 3}
    assert names.find(words("我在北京住。")) == {4}
    assert names.find(words("ac dc")) == {5}


def test_one_name_may_be_borne_by_many():
    names = index("Georgia", "georgia", "Tbilisi")
    assert names.find(words("Georgia")) == {0, 1}


@given(
    st.lists(st.one_of(snippets, few_words.map(" ".join)), max_size=6),
    st.lists(st.one_of(snippets, few_words.map(" ".join)), max_size=6).map(" ".join),
)
def test_what_is_found_is_what_stands_there(written, text):
    names = index(*written)
    assert names.find(words(text)) == naive(written, text)


@given(st.one_of(st.text(), st.lists(snippets).map(" ".join)))
def test_the_fast_words_are_the_words(text):
    assert words(text) == [token.folded for token in tokenize(text)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Oslo", True),
        ("The Who", False),
        ("It", False),
        ("Can", False),
        ("A", False),
        ("Ox", False),
        ("K2", True),
        ("7", False),
        ("42", False),
        ("1984", True),
        ("Vitamin D", True),
        ("C D", False),
        ("北", False),
        ("北京", True),
        ("To Be or Not", False),
        ("...", False),
        ("", False),
    ],
)
def test_names_that_say_too_little_are_not_looked_up(name, expected):
    assert matchable(name_key(name)) is expected


WORDS = st.sampled_from(["oak", "old", "street", "new", "york", "the", "city", "k2", "東", "京"])


@given(
    written=st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), max_size=12),
    text=st.lists(WORDS, max_size=14).map(" ".join),
    quiet=st.sets(st.integers(1, 12)),
)
def test_names_looked_up_in_the_store_are_those_of_the_index(written, text, quiet):
    pairs = []
    with closing(schema.expected()) as connection:
        for unit, name in enumerate(written, 1):
            key = name_key(name)
            connection.execute(
                "INSERT INTO units VALUES (?, ?, ?, '', '', '', ?)",
                (unit, str(unit), name, unit not in quiet),
            )
            connection.execute("INSERT INTO names VALUES (?, ?)", (key, unit))
            if matchable(key) and unit not in quiet:
                pairs.append((key, unit))
        names = inverted.names_in(connection, [words(text)])
        assert names.find(words(text)) == NameIndex(pairs).find(words(text))
