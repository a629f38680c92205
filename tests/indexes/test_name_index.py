"""Names of units in texts: found at word boundaries, however they are written."""

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
    made = NameIndex()
    for row, name in enumerate(written):
        made.add(name_key(name), row)
    return made


def naive(written, text):
    """What "stands in the text" means: the name's words in a row among the text's words."""
    spaced = f" {' '.join(words(text))} "
    return {
        row
        for row, name in enumerate(written)
        if name_key(name) and f" {name_key(name)} " in spaced
    }


def test_all_names_that_stand_in_the_text_count():
    made = index("New York", "York", "New York City", "Newark")
    assert made.find(words("In new york, city of…")) == {0, 1, 2}
    assert made.find(words("The Duke of YORK")) == {1}
    assert made.find(words("Yorkshire, New-York")) == {0, 1}
    assert made.find(words("")) == set()


def test_spelling_does_not_matter():
    made = index("Café", "Straße", "Göteborg", "ﬁsh", "北京", "AC/DC")
    assert made.find(words("the CAFE")) == {0}
    assert made.find(words("STRASSE")) == {1}
    assert made.find(words("Go\u0308teborg, Fish")) == {2, 3}
    assert made.find(words("我在北京住。")) == {4}
    assert made.find(words("ac dc")) == {5}


def test_one_name_may_be_borne_by_many():
    made = index("Georgia", "georgia", "Tbilisi")
    assert made.find(words("Georgia")) == {0, 1}
    made.remove("georgia", 0)
    assert made.find(words("Georgia")) == {1}
    made.remove("georgia", 1)
    made.remove("georgia", 1)
    made.remove("never added", 7)
    assert made.find(words("Georgia")) == set()


def test_removing_a_name_leaves_longer_and_shorter_ones():
    made = index("York", "York Minster", "York Minster Library")
    made.remove("york minster", 1)
    assert made.find(words("the York Minster Library")) == {0, 2}
    made.remove("york minster library", 2)
    assert made.find(words("the York Minster Library")) == {0}
    made.remove("york", 0)
    assert made.find(words("the York Minster Library")) == set()
    made.add("", 5)
    assert made.find(words(" ")) == set()


@given(
    st.lists(st.one_of(snippets, few_words.map(" ".join)), max_size=6),
    st.lists(st.one_of(snippets, few_words.map(" ".join)), max_size=6).map(" ".join),
)
def test_what_is_found_is_what_stands_there(written, text):
    made = index(*written)
    assert made.find(words(text)) == naive(written, text)


@given(
    st.lists(st.tuples(few_words.map(" ".join), st.integers(0, 3), st.booleans()), max_size=12),
    few_words.map(" ".join),
)
def test_names_that_come_and_go_leave_no_trace(changes, text):
    made, left = NameIndex(), set()
    for name, row, added in changes:
        key = name_key(name)
        (made.add if added else made.remove)(key, row)
        (left.add if added else left.discard)((key, row))
    fresh = NameIndex()
    for key, row in left:
        fresh.add(key, row)
    assert made.find(words(text)) == fresh.find(words(text))
    if not {key for key, _ in left} - {""}:
        assert made._root.following == {}


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
    made = NameIndex()
    with closing(schema.expected()) as connection:
        for unit, name in enumerate(written, 1):
            key = name_key(name)
            connection.execute(
                "INSERT INTO units VALUES (?, ?, ?, '', '', '', ?)",
                (unit, str(unit), name, unit not in quiet),
            )
            connection.execute("INSERT INTO names VALUES (?, ?)", (key, unit))
            if matchable(key) and unit not in quiet:
                made.add(key, unit)
        assert inverted.named(connection, words(text)) == made.find(words(text))
