"""Pages without text that a model transcribes, through a server on this machine."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase
from ku_rag.errors import BadInput
from tests.conftest import install_plug_in
from tests.endpoint import fails, says, serving
from tests.ingest.test_scans import SIDES, Reader, page, pdf

MAINTENANCE = (
    "```markdown\n# Maintenance\n\nThe pump is cleaned once a week.\n\n## Valves\n\n"
    "| valve | bar |\n|---|---|\n| V1 | 7 |\n| V2 | 5 |\n\nTheir springs are made of steel.\n```"
)
USAGE = {"replies": 1, "cached": 0, "prompt_tokens": 11, "completion_tokens": 7, "cached_tokens": 0}


@pytest.fixture
def open_base(tmp_path):
    def opened(url, recogniser="none"):
        settings = {"mllm_url": url, "mllm_cache": False, "recogniser": recogniser}
        return KnowledgeBase.open(tmp_path / "kb", create=True, **settings)

    return opened


def test_a_transcribed_page_is_text_with_headings_and_tables(tmp_path, open_base):
    file = pdf(tmp_path / "pump.pdf", page())
    with serving(says(MAINTENANCE)) as endpoint, open_base(endpoint.url) as kb:
        report = kb.ingest(file, read_pages="m-1")
        assert (report.quarantined, report.usage) == ([], USAGE)
        assert endpoint.bodies[0]["model"] == "m-1"
        assert "in reading order" in endpoint.texts(0)[0]
        (sent,) = endpoint.pictures(0)
        assert max(sent.size) == 1600
        assert (kb.show("pump").name, kb.show("pump").aliases) == ("Maintenance", ("pump",))
        (piece, *_) = kb.search(text="springs of steel").chunks
        assert piece.text.strip().splitlines() == [
            "## Valves", "", "", "Their springs are made of steel."
        ]  # fmt: skip
        assert (piece.page, piece.box, piece.confidence) == (1, None, None)
        assert piece.place == "page 1 (transcribed by m-1), Maintenance > Valves"
        assert piece.to_dict()["transcribed_by"] == "m-1"
        (row,) = (c for c in kb.search(text="valve V2 bar").chunks if c.table and c.table.row == 1)
        assert [(column, cell.text) for column, cell in row.table.cells] == [
            ("valve", "V2"), ("bar", "5")
        ]  # fmt: skip
        assert (row.page, row.transcribed_by) == (1, "m-1")
        answer = kb.query(None, "What are the springs of the valves made of?")
        (cited,) = (piece for piece in answer.chunks if piece.label in answer.citations)
        assert cited.transcribed_by == "m-1"
        again = kb.sync(tmp_path, read_pages="m-1")
        assert (again.units_unchanged, again.usage["replies"], len(endpoint.bodies)) == (1, 0, 1)


def test_a_page_that_the_model_refuses_is_listed_and_asked_again_later(tmp_path, open_base):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", page(), page(1.0), page(2.0))
    replies = says("The pump is heavy."), fails(400, "no pages"), says("NO TEXT"), says("The end.")
    with serving(*replies) as endpoint, open_base(endpoint.url) as kb:
        report = kb.ingest(file, read_pages="m-1")
        (left_out,) = report.quarantined
        assert left_out.reason.startswith("page 3 holds no text, and it was not transcribed: http")
        assert report.usage["replies"] == 2
        assert kb.ingest(file, read_pages="m-1").quarantined == []
        assert [text.split() for text in kb.show("pump").texts] == [
            ["Pump", "of", "the", "cellar"], ["The", "pump", "is", "heavy.", "The", "end."]
        ]  # fmt: skip
        assert [piece.page for piece in kb.search(text="end", k=1).chunks] == [2]


def test_a_model_that_fails_three_times_is_not_asked_again(tmp_path, open_base):
    file = pdf(tmp_path / "pump.pdf", *(page(tilt) for tilt in (0.0, 0.5, 1.0, 1.5, 2.0)))
    with serving(by=lambda _: fails(400, "no pages")) as endpoint, open_base(endpoint.url) as kb:
        (left_out,) = kb.ingest(file, read_pages="m-1").quarantined
        assert left_out.reason.startswith("pages 1 to 5 hold no text")
        assert len(endpoint.bodies) == 3


def test_a_transcription_stays_until_another_model_reads_the_page(tmp_path, open_base, monkeypatch):
    install_plug_in(tmp_path, f"[ku_rag.recognisers]\nreader = {Reader.__module__}:Reader\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = pdf(tmp_path / "pump.pdf", page())
    replies = says("First."), says("Second.")
    with serving(*replies) as endpoint, open_base(endpoint.url, "reader") as kb:
        kb.ingest(file)
        assert [text.strip() for text in kb.show("pump").texts] == ["The pump is heavy."]
        kb.ingest(file, read_pages="m-1")
        kb.ingest(file)
        assert kb.reindex().pictures_read == 0
        assert [text.strip() for text in kb.show("pump").texts] == ["First."]
        assert kb.show("pump").words == {"mllm:m-1": ("First.",)}
        kb.ingest(file, read_pages="m-2")
        assert [text.strip() for text in kb.show("pump").texts] == ["Second."]


def test_a_transcription_is_exported_and_deleted_like_recognised_words(tmp_path, open_base):
    file = pdf(tmp_path / "pump.pdf", page())
    with serving(says("# Zirconium\n\nThe pump is heavy.")) as endpoint:
        with open_base(endpoint.url) as kb:
            kb.ingest(file, read_pages="null,m")
            kb.export(tmp_path / "export")
            kb.delete(["pump"])
            kb.compact()
        stored = b"".join(path.read_bytes() for path in (tmp_path / "kb").rglob("ku.sqlite*"))
        assert b"irconium" not in stored
    with KnowledgeBase.open(tmp_path / "copy", create=True, recogniser="none") as kb:
        kb.import_(tmp_path / "export")
        assert kb.ingest(file).units_unchanged == 1
        (piece,) = kb.search(text="heavy pump", k=1).chunks
        assert piece.transcribed_by == "null,m"


def test_what_would_have_no_effect_is_refused(tmp_path, open_base):
    (tmp_path / "a.csv").write_text("name,colour\npump,red\n")
    with open_base("http://127.0.0.1:9/v1") as kb:
        with pytest.raises(BadInput, match=r"a\.csv has no pages to transcribe"):
            kb.ingest(tmp_path / "a.csv", read_pages="m-1")
        with pytest.raises(BadInput, match="a dry run asks no model"):
            kb.sync(tmp_path, dry_run=True, read_pages="m-1")
        assert kb.list() == []


def test_the_commands_report_what_the_model_has_used(tmp_path, ku, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    pdf(folder / "pump.pdf", page())
    monkeypatch.setenv("KU_RECOGNISER", "none")
    monkeypatch.setenv("KU_MLLM_CACHE", "false")
    with serving(says("The pump is heavy.")) as endpoint:
        monkeypatch.setenv("KU_MLLM_URL", endpoint.url)
        ingested = ku("ingest", folder, "--read-pages", "m-1")
        synced = ku("sync", folder, "--read-pages", "m-1", "--json")
    assert "m-1: 1 replies, 0 of them from the cache; 11 + 7 tokens" in ingested.err
    assert synced.json["units_unchanged"] == 1
    assert synced.json["usage"] == dict.fromkeys(USAGE, 0)
    for command in ("ingest", "sync"):
        refused = ku(command, folder, "--read-pages", "m-1", "--dry-run")
        assert (refused.code, "--read-pages" in refused.err) == (2, True)


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """A folder with two pictures, and a recogniser that reads four lines in one of them."""
    entry = f"[ku_rag.recognisers]\nletters = {__name__}:Letters\n"
    install_plug_in(tmp_path, entry)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    page().save(folder / "letter.png")
    page().resize((350, 350)).save(folder / "pack.png")
    return folder


class Letters(Reader):
    """Reads overlapping lines of a tilted letter in a large picture, and labels in a small one."""

    fingerprint = "letters:1"

    def read(self, image):
        line = Reader().read(image)[0]
        if image.size != SIDES:
            return [line, *(type(line)("Milk", (5, n, 80, n + 9), 0.9) for n in range(0, 300, 30))]
        texts = ("Dear Mrs Lindqvist,", "the pump in the cellar was", "replaced on 4 May by", "us.")
        texts += ("We wish you well.",)
        return [
            type(line)(text, (90 + n, 200 + 40 * n, 95 + 30 * len(text), 280 + 40 * n), 0.9)
            for n, text in enumerate(texts)
        ]


def test_a_photographed_letter_is_a_citable_text_and_a_pack_is_not(tmp_path, letters):
    with KnowledgeBase.open(tmp_path / "kb", create=True, recogniser="letters") as kb:
        assert kb.ingest(letters).chunks_added == 1
        (piece,) = kb.search(text="When was the pump replaced?").chunks
        assert piece.owners == ("letter",)
        assert " ".join(piece.text.split()) == (
            "Dear Mrs Lindqvist, the pump in the cellar was replaced on 4 May by us. "
            "We wish you well."
        )
        assert piece.place == "picture (recognised, confidence 0.90)"
        assert (piece.page, piece.box[:2]) == (None, (0.09, 0.1429))
        assert kb.show("pack").texts == ()
        assert kb.ingest(letters).units_unchanged == 2
        kb.delete(["letter"])
        assert kb.search(text="When was the pump replaced?").chunks == ()


def test_letters_in_a_folder_of_pictures_are_texts(tmp_path, letters):
    letters.rename(tmp_path / "post")
    (tmp_path / "in").mkdir()
    (tmp_path / "post").rename(tmp_path / "in" / "post")
    with KnowledgeBase.open(tmp_path / "kb", create=True, recogniser="letters") as kb:
        assert kb.ingest(tmp_path / "in").chunks_added == 1
        (text,) = kb.show("post").texts
        assert "replaced on 4 May" in text
