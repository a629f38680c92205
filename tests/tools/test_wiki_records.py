"""Records of the published knowledge bases, and retrieval of their pages by pictures."""

from __future__ import annotations

import gzip
import json

import pytest

from ku_rag import KnowledgeBase
from tests.conftest import picture
from tools import wiki_records

PAGES = {
    "https://en.wikipedia.org/wiki/Red_Fox": {
        "title": "Red Fox",
        "section_titles": ["Red Fox", "Empty"],
        "section_texts": ["A fox is red.", " "],
        "image_urls": ["https://x.org/a/fox%20one.png", "https://x.org/b/lost.png"],
    },
    "https://en.wikipedia.org/wiki/Owl": {
        "title": "Owl",
        "section_titles": ["Owl"],
        "section_texts": ["An owl " + "flies by night. " * 9],
        "image_urls": ["https://x.org/c/owl.png?size=9"],
    },
}


@pytest.fixture
def images(tmp_path):
    for seed, name in enumerate(("fox one.png", "owl.png"), 1):
        picture(tmp_path / "images" / name, seed)
    return tmp_path / "images"


@pytest.mark.parametrize("portion", [1, 7, 1 << 20])
def test_pages_of_encyclopedic_vqa_are_retrieved_by_pictures(
    tmp_path, images, monkeypatch, capsys, portion
):
    monkeypatch.setattr(wiki_records, "_PORTION", portion)
    file, out = tmp_path / "kb.json", tmp_path / "records.jsonl"
    file.write_text(json.dumps(PAGES, indent=1), encoding="utf-8")
    wiki_records.main(["encyclopedic-vqa", str(file), "--images", str(images), "--out", str(out)])
    assert capsys.readouterr().out == "2 pages, 2 pictures; 1 pictures are not there\n"
    with KnowledgeBase.open(tmp_path / "base", create=True) as kb:
        kb.ingest(out)
        assert kb.show("https://en.wikipedia.org/wiki/Red_Fox").texts == ("Red Fox\nA fox is red.",)
        for seed, address in enumerate(PAGES, 1):
            photo = picture(tmp_path / "query.png", seed)
            assert kb.search(image=photo).units[0].id == address


def test_pages_of_infoseek(tmp_path, images, capsys):
    page = {
        "wikidata_id": "Q1",
        "wikipedia_title": "Owl",
        "wikipedia_content": "An owl flies.",
        "wikipedia_image_url": "https://x.org/owl.png",
    }
    file, out = tmp_path / "wiki.jsonl.gz", tmp_path / "records.jsonl"
    file.write_bytes(gzip.compress(json.dumps(page).encode() + b"\n"))
    wiki_records.main(["infoseek", str(file), "--images", str(images), "--out", str(out)])
    assert json.loads(out.read_text()) == {
        "id": "Q1",
        "name": "Owl",
        "texts": ["An owl flies."],
        "images": ["images/owl.png"],
    }


def test_a_file_that_is_no_object(tmp_path):
    file = tmp_path / "kb.json"
    file.write_text("[1]")
    with pytest.raises(ValueError, match="is no JSON object"):
        list(wiki_records.read_object(file))
    file.write_text("{}")
    assert list(wiki_records.read_object(file)) == []
