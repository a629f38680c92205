"""Sentences and chunks: complete, within the limit, and split the same way everywhere."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.ingest.chunking import chunk
from ku_rag.text.sentences import sentences

GROCERY = Path(__file__).parents[2].parent / "shared" / "data" / "grocery" / "units"

awkward = st.text(st.sampled_from("abA1 .!?。．、：:-*#\n\r\t\"'”)北京ガ\u0301\u200d\u00a0\u2028…"))
texts = st.one_of(st.text(), awkward, st.lists(awkward, max_size=40).map("\n\n".join))


def words(text):
    return len(text.split())


def marked(text):
    """Count as CLIP does: a start mark, an end mark, and about four characters a token."""
    return 2 + -(-len(text) // 4)


def merging(text):
    """A count that is not additive: repeated neighbours are free, as in byte pair encoding."""
    return len(re.findall(r"(\S)\1*", text))


def split(text):
    return [text[start:end] for start, end in sentences(text)]


# ---- chunks ------------------------------------------------------------------------------------


@given(
    texts,
    st.sampled_from([words, marked, merging, len, EmbeddedEncoder().count_tokens]),
    st.integers(1, 40),
)
@example("\n\n", marked, 1)
@example("x" * 300, len, 7)
def test_chunks_lose_nothing_and_fit(text, count, limit):
    chunks = chunk(text, count_tokens=count, max_tokens=limit)
    assert "".join(chunks) == text
    assert all(chunks)
    assert [c for c in chunks if count(c) > limit and len(c) > 1] == []


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(12, 40))
def test_a_chunk_takes_as_many_whole_sentences_as_fit(lengths, limit):
    written = ["Word" + " word" * (n - 1) + ". " for n in lengths]
    chunks = chunk("".join(written), count_tokens=words, max_tokens=limit)
    expected, room = [""], limit
    for sentence, length in zip(written, lengths, strict=True):
        if length > room:
            expected.append("")
            room = limit
        expected[-1] += sentence
        room -= length
    assert chunks == expected


def test_counts_that_do_not_add_up_leave_no_room_unused():
    # A sentence alone has 3 tokens and 2 marks; eight together have 18 and 2 marks.
    assert chunk("Aaa bbb. " * 10, count_tokens=marked, max_tokens=20) == [
        "Aaa bbb. " * 8,
        "Aaa bbb. " * 2,
    ]


def test_a_chunk_half_full_ends_at_a_blank_line():
    text = "One two three. Four five six.\n\nSeven eight nine. Ten eleven twelve. Thirteen."
    assert chunk(text, count_tokens=words, max_tokens=10) == [
        "One two three. Four five six.\n\n",
        "Seven eight nine. Ten eleven twelve. Thirteen.",
    ]
    # A chunk that is less than half full continues.
    assert chunk("One two.\n\n" + "Three four five. " * 4, count_tokens=words, max_tokens=9) == [
        "One two.\n\nThree four five. Three four five. ",
        "Three four five. Three four five. ",
    ]


def test_a_sentence_too_long_is_cut_at_a_word_then_at_a_character():
    assert chunk("one two three four five", count_tokens=len, max_tokens=10) == [
        "one two ",
        "three ",
        "four five",
    ]
    assert chunk("a" * 25, count_tokens=len, max_tokens=10) == ["a" * 10, "a" * 10, "a" * 5]
    assert chunk("北京是中国的首都、人口很多", count_tokens=len, max_tokens=10) == [
        "北京是中国的首都、",
        "人口很多",
    ]


def test_a_cut_keeps_letters_with_their_marks():
    chunks = chunk("e\u0301" * 20, count_tokens=len, max_tokens=9)
    assert chunks == ["e\u0301" * 4] * 5


def test_the_rest_of_a_cut_sentence_goes_with_the_next_sentence():
    text = "one two three four five six seven. Eight nine."
    assert chunk(text, count_tokens=words, max_tokens=5) == [
        "one two three four five ",
        "six seven. Eight nine.",
    ]


def test_no_text_has_no_chunks():
    assert chunk("", count_tokens=words, max_tokens=5) == []
    assert chunk(" \n", count_tokens=words, max_tokens=5) == [" \n"]


@pytest.mark.parametrize(
    "text",
    [
        "a. " * 60_000,
        "word " * 200_000,
        "x" * 1_000_000,
        "。" * 20_000,
        "! " * 10_000,
        "\n" * 400_000,
        '". ' * 10_000,
        "a " + "." * 200_000,
        "[" * 100_000,
    ],
    ids=["a.", "no stop", "no space", "full-width", "marks", "lines", "quotes", "dots", "brackets"],
)
def test_texts_made_to_be_slow_are_not(text, rounds):
    text *= rounds(1, 5)
    start = time.process_time()
    chunks = chunk(text, count_tokens=lambda t: -(-len(t) // 4), max_tokens=100)
    assert time.process_time() - start < 15
    assert "".join(chunks) == text
    assert max(map(len, chunks)) <= 400


# ---- sentences ---------------------------------------------------------------------------------


@given(texts)
def test_sentences_tile_the_text(text):
    spans = sentences(text)
    ends = [0, *(end for _, end in spans)]
    assert [start for start, _ in spans] == ends[:-1]
    assert ends[-1] == len(text)
    assert all(start < end for start, end in spans)


@pytest.mark.parametrize(
    "parts",
    [
        ["Dr. Smith went to the U.S. in 1960. ", "Mr. J. R. Jones is No. 5. ", "No. ", "So."],
        ["It holds vitamin D. ", "It is good, e.g. for you, Inc. or not. ", "(He did.) ", "Yes!"],
        ["“Really?” she asked. ", "“No.” ", "He left... and came back."],
        ["Am 3. Oktober 1990 kam er, z.B. heim. ", "Er war 5. im Ziel. ", "Das war 1990. ", "Gut."],
        ["M. Dupont habite av. Foch. ", "Il a 3 enfants. ", "C'est tout."],
        ["El Sr. García llegó. ", "¿Qué tal? ", "¡Bien!"],
        ["В 1990 г. он жил на ул. Ленина. ", "Он уехал. ", "Да."],
        ["北京是中国的首都。", "人口多！", "真的吗？\n", "是．", "３．５万。", "「行く。」", "ok"],
        ["你好!", "再见?", "好"],
        ["यह भारत है। ", "हाँ।"],
        ["The first paragraph\n\n", "the second\r\n\r\n", "the third"],
        ["Colours:\n", "- red\n", "- green\n", "1. one\n", "2. two"],
        ["# Oslo\n", "Oslo is a city. ", "It is old."],
        ["Capital: Oslo\n", "currency: krone\n", "产地：挪威\n", "area: 5 km"],
    ],
    ids=lambda parts: parts[0][:12],
)  # fmt: skip
def test_sentences_end_where_people_end_them(parts):
    assert split("".join(parts)) == parts


def test_wrapped_prose_is_not_cut_at_its_lines():
    text = (
        "The flag of Chad is a vertical tricolour of blue, gold and red, which was\n"
        "adopted in 1959, the year before the country became independent. It looks\n"
        "much like the flag of Romania.\n"
        "Capital: N'Djamena\n"
    )
    assert split(text) == [
        text[: text.index("It looks")],
        text[text.index("It looks") : text.index("Capital")],
        "Capital: N'Djamena\n",
    ]


def test_windows_do_not_show_in_the_result():
    text = "This is sentence no. 5 of Dr. Smith. " * 2_000
    assert split(text) == ["This is sentence no. 5 of Dr. Smith. "] * 2_000


@pytest.mark.skipif(not GROCERY.is_dir(), reason="shared/data/grocery is not here")
def test_every_line_of_a_product_page_is_a_sentence_of_its_own():
    pages = sorted(GROCERY.glob("*/information.txt"))
    assert len(pages) == 80
    for page in pages:
        text = page.read_text(encoding="utf-8")
        starts = {start for start, _ in sentences(text)} | {len(text) - len(text.lstrip())}
        assert {m.start() for m in re.finditer(r"(?m)\S.*$", text)} <= starts


def test_nltk_waits_until_a_text_needs_it():
    code = "import sys, ku_rag.ingest.chunking; print('nltk' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
