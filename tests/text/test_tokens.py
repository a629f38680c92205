from hypothesis import given
from hypothesis import strategies as st

from ku_rag.text.stems import index_terms, query_terms
from ku_rag.text.tokens import content_words, name_key, tokenize, words


def test_tokens_keep_the_offsets_of_the_original():
    text = "Straße, ﬁn & Café"
    assert [(t.folded, text[t.start : t.end]) for t in tokenize(text)] == [
        ("strasse", "Straße"),
        ("fin", "ﬁn"),
        ("cafe", "Café"),
    ]


def test_diacritics_and_case_are_folded_but_kana_voicing_is_kept():
    assert words("ÉCOLE Łódź ガラス カラス") == ["ecole", "łodz", *"ガラス", *"カラス"]


def test_cjk_runs_become_bigrams_with_the_last_character_once_more():
    assert index_terms(words("我爱北京 now"), "english") == "我爱 爱北 北京 京 now"
    assert query_terms(words("北京"), "english") == ["北京"]
    assert query_terms(words("京"), "english") == ["京"]


def test_terms_are_stems_of_a_language():
    tokens = words("The bridges were rebuilt; Häuser")
    assert index_terms(tokens, "english") == "the bridg were rebuilt hauser"
    assert query_terms(words("Häusern, Haus"), "german") == ["haus", "haus"]


def test_spellings_of_one_name_share_a_key():
    assert name_key("Golden-Delicious") == name_key("golden  delicious") == "golden delicious"
    assert name_key("★") == ""


def test_content_words_leave_out_stop_words_and_repeats():
    assert content_words("What is the capital of the capital, Lisbon?") == ["capital", "lisbon"]


@given(st.text())
def test_tokens_lie_in_the_text_in_order(text):
    end = 0
    for token in tokenize(text):
        assert end <= token.start < token.end <= len(text)
        assert token.folded
        end = token.end


@given(st.text(), st.text())
def test_a_query_for_a_part_finds_the_whole(text, part):
    """Each query term is in the index of any text around the part, except at the edges."""
    entries = set(index_terms(words(f"{text} x {part} x {text}"), "english").split(" "))
    for term in query_terms(words(part), "english"):
        assert term in entries or any(entry.startswith(term) for entry in entries)
