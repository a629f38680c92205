"""Questions about documents, and answers from their sections."""

import time

import pytest

from ku_rag import KnowledgeBase

FORMATTER = """# Formatter

## Installing

With pip:

```sh
pip install formatter
```

With conda:

```sh
conda install formatter
```

## Options

#### `line-width`

The longest line that is written.

* Default: 88

#### `json`

* Default: false

Print results as JSON.

## Limits

The default value for MAX_FILES is 500. The number of open windows is limited to MAX_WINDOWS
which defaults to 16.

## Releasing

1. Raise the version.
2. Push the tag.

## Terms

A token is the smallest part of a line. A token is not a word.
"""
COMMAND = """<h1>seal(1)</h1><h2>NAME</h2><p>seal - close files</p><h2>OPTIONS</h2><dl>
<dt>-f</dt><dt>--force</dt><dd><p>Close the file although it is open elsewhere.</p></dd>
<dt>--colour=&lt;when&gt;</dt><dd><p>Print colours always, never or on terminals.</p></dd></dl>
<h2>SEE ALSO</h2><p>open(1)</p>"""
OTHER = (
    "# Printer\n\n## Options\n\n#### `margin`\n\n* Default: 5\n\n#### `json`\n\n* Default: true\n"
)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "formatter.md").write_text(FORMATTER)
    (folder / "seal.html").write_text(COMMAND)
    (folder / "printer.md").write_text(OTHER)
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        for name in ("formatter.md", "seal.html", "printer.md"):
            kb.ingest(folder / name)
        yield kb


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the default of line-width?", "88"),
        ("What is the default of json in the formatter?", "false"),
        ("What is the default of json?", "false (Formatter); true (Printer)"),
        ("What is the default of MAX_FILES?", "500"),
        ("What does MAX_WINDOWS default to?", "16"),
        ("What does json do in the formatter?", "Print results as JSON."),
        ("Which option prints results as JSON?", "json"),
        ("What does --force do?", "Close the file although it is open elsewhere."),
        ("Which option of seal closes a file that is open elsewhere?", "-f, --force"),
        ("How do I install the formatter with conda?", "conda install formatter"),
        ("How do I install the formatter?", "pip install formatter"),
        ("How do I do the releasing of the formatter?", "Raise the version.\nPush the tag."),
        ("What is a token?", "A token is the smallest part of a line."),
        ("What is the default of margins?", "5"),
        # not stated in any document
        ("What is the default of tabs?", ""),
        ("Which option sends mail?", ""),
        ("How do I install the printer?", ""),
        ("What is a seal ring?", ""),
        ("What does --quiet do?", ""),
        ("Who wrote the formatter?", ""),
    ],
)
def test_questions_about_documents(documents, question, expected):
    answer = documents.query(None, question)
    assert answer.answer == expected
    for label, (start, end) in zip(answer.citations, answer.reading.spans, strict=True):
        (piece,) = (piece for piece in answer.chunks if piece.label == label)
        assert piece.text[start:end].strip()


def test_documents_that_mention_something_are_listed_with_the_words(documents):
    answer = documents.query(None, "Which documents mention colours?")
    assert answer.reading.items == ("seal(1) (seal.html)",)
    (label,), ((start, end),) = answer.citations, answer.reading.spans
    (piece,) = (piece for piece in answer.chunks if piece.label == label)
    assert piece.text[start:end] == "colours"
    both = documents.query(None, "Which documents describe json?").reading.items
    assert both == ("Formatter (formatter.md)", "Printer (printer.md)")
    filtered = documents.query(None, "Which documents describe json?", where="file_format=html")
    assert not filtered.answer
    assert not documents.query(None, "Which documents mention whales?").answer


def test_long_words_and_lists_are_read_quickly(tmp_path):
    parts = (
        "-" + "a" * 15_000,
        "-a,b" * 4_000,
        "`a`, " * 4_000,
        "1. x\n" * 4_000,
        "-a\n  b\n" * 3_000,
    )
    text = "".join(f"## Part {n} of options\n\n{part}\n\n" for n, part in enumerate(parts))
    (tmp_path / "manual.md").write_text(f"# Manual\n\n{text}")
    with KnowledgeBase.open(tmp_path / "kb", create=True, max_tokens=0) as kb:
        kb.ingest(tmp_path / "manual.md")
        started = time.process_time()
        for question in ("Which option of the manual sends a?", "What is the default of a part?"):
            kb.query(None, question)
        assert time.process_time() - started < 10


def test_documents_of_the_same_title_are_listed_each(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / "docs" / folder).mkdir(parents=True)
        (tmp_path / "docs" / folder / "README.md").write_text("# Overview\n\nThe council met.\n")
        (tmp_path / "docs" / folder / "other.md").write_text("Nothing.")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "docs")
        items = kb.query(None, "Which documents mention the council?").reading.items
    assert items == ("Overview (README.md): a/README", "Overview (README.md): b/README")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does section 2 of the pump manual say?", "The pump is opened with a key."),
        ("What does section 2.1 say about gloves?", "Gloves are of rubber."),
        ("What does chapter 3 of the pump manual say?", "A rotor turns."),
        ("What does section 2.1 say about boots?", ""),
        ("What does section 9 of the pump manual say?", ""),
    ],
)
def test_a_section_is_read_by_its_number(tmp_path, question, expected):
    (tmp_path / "pump.md").write_text(
        "# Pump manual\n\n## 1 Purpose\n\nIt drains cellars.\n\n## 2 Service\n\n"
        "The pump is opened with a key.\n\n### 2.1 Safety\n\n"
        "Wear goggles. Gloves are of rubber.\n\n"
        "## 3. Parts\n\nA rotor turns. The seal is of cork.\n"
    )
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "pump.md")
        assert kb.query(None, question).answer == expected
