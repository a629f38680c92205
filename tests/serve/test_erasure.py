"""A deleted sentence and a deleted picture are in no file after `compact`."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from ku_rag import KnowledgeBase, Unit
from ku_rag.types import Word
from tests.conftest import install_plug_in
from tests.endpoint import says
from tests.endpoint import serving as serving_model
from tests.serve.conftest import data_uri, serving

WORD = "Quillharbour"
SENTENCE = f"The lantern was forged in {WORD}."


REPLY = {"answer": WORD, "reason": SENTENCE, "citations": ["E1"], "changed": True}


class Marks:
    """Reads the word in every picture with magenta in it."""

    fingerprint = "marks:1"

    def read(self, image):
        has_mark = (np.asarray(image) == (255, 0, 255)).all(2).any()
        return [Word(WORD, (0, 0, 20, 20), 0.9)] if has_mark else []


def files_with(folder: Path, *needles: bytes) -> set[str]:
    """The files in a folder that contain any of the byte strings, in any case."""
    return {
        path.relative_to(folder).parts[0]
        for path in folder.rglob("*")
        if path.is_file() and any(n.lower() in path.read_bytes().lower() for n in needles)
    }


def write_files(folder: Path) -> Path:
    """A picture with a readable mark, a text, a table and a PDF of a lantern."""
    folder.mkdir()
    picture = Image.effect_noise((400, 300), 90).convert("RGB")
    picture.paste((255, 0, 255), (10, 10, 40, 40))
    picture.save(folder / "photo.png")
    (folder / "about.txt").write_text(f"Title: Lantern\nOrigin: {WORD}\n{SENTENCE}\n")
    (folder / "parts.csv").write_text(f"name,made in\nLantern,{WORD}\n")
    canvas = Canvas(str(folder / "manual.pdf"), pagesize=(600, 800))
    canvas.drawString(100, 400, f"Storage: {WORD}")
    canvas.save()
    return folder


def use_everything(client, kb: KnowledgeBase, files: Path) -> None:
    """Store the sentence and the picture in every way."""
    upload = [
        ("files", (f"Lantern/{path.name}", path.read_bytes()))
        for path in sorted(files.iterdir())
        if path.suffix in (".png", ".txt", ".csv")
    ]
    job = client.post("/v1/ingest", files=upload).json()["id"]
    while client.get(f"/v1/jobs/{job}").json()["state"] in ("queued", "running"):
        time.sleep(0.02)
    assert client.get(f"/v1/jobs/{job}").json()["state"] == "done"
    kb.ingest(files / "manual.pdf")
    picture = data_uri(files / "photo.png")
    unit = {"name": "Old lantern", "texts": [SENTENCE], "images": [picture]}
    unit |= {"relations": [{"relation": "forged in", "target": WORD}]}
    assert client.put("/v1/units/old", json=unit).is_success
    assert client.patch("/v1/units/old", json={"metadata": {"harbour": WORD}}).is_success
    photo = ("p.png", (files / "photo.png").read_bytes())
    for question, image in [
        ("What is the origin of the Lantern?", None),
        ("Where was it forged?", photo),
        ("What is printed on it?", photo),
        ("What is the harbour of the Old lantern?", None),
        ("What was the Old lantern forged in?", None),
        ("What is the storage?", None),
    ]:
        form = {"question": (None, question)} | ({"image": image} if image else {})
        page = client.post("/", files=form)
        assert page.url.path.startswith("/answers/")
        feedback = {"verdict": "wrong", "right_answer": SENTENCE}
        assert client.post(f"/v1{page.url.path}", json=feedback).is_success
        assert client.get("/report", params={"answer": page.url.path[9:]}).is_success
    for path in ("/units", "/units/old?hops=2", "/answers", f"/units?text={WORD}"):
        assert client.get(path, headers={"Accept": "text/html"}).is_success
    for image in kb.show("old").images:
        assert client.get(f"/v1/images/{kb.picture_hash(image)}?size=100").is_success
    for hit in kb.search(text="storage").chunks:
        if hit.page:
            kb.page_image(hit.chunk, hit.page, hit.box)


def test_what_was_deleted_is_in_no_file(tmp_path, monkeypatch):
    install_plug_in(tmp_path, f"[ku_rag.recognisers]\nmarks = {__name__}:Marks\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("KU_RECOGNISER")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    files = write_files(tmp_path / "files")
    photo = (files / "photo.png").read_bytes()
    needles = WORD.encode(), photo[2000:2064], sha256(photo).hexdigest().encode()
    kb_folder, caches = tmp_path / "kb", tmp_path / "cache"
    with KnowledgeBase.open(kb_folder, create=True, recogniser="marks") as kb:
        kb.add(Unit("Kiwi", id="kiwi", texts=["The Kiwi grows in Italy."]))
        with serving(kb) as client:
            response = client.post("/", files={"question": (None, "Where does the Kiwi grow?")})
            use_everything(client, kb, files)
            with (
                serving_model(by=lambda _: says(json.dumps(REPLY))) as endpoint,
                KnowledgeBase.open(kb_folder, mllm="m-1", mllm_url=endpoint.url) as second,
            ):
                second.answers.add(second.query(None, "Where was the Lantern forged?"))
            stores = {"ku.sqlite-wal", "answers.sqlite-wal", "images"}
            assert stores <= files_with(kb_folder, *needles)
            assert files_with(caches, *needles) == {"replies"}
            for unit in kb.list():
                if unit.id != "kiwi":
                    assert client.delete(f"/v1/units/{unit.id}").is_success
            assert kb.compact(caches=True).bytes_after > 0
            assert files_with(kb_folder, *needles) == set()
            assert files_with(caches, *needles) == set()
            [stored] = kb.answers.list()
            assert response.url.path == f"/answers/{stored.id}"
            assert b"\xff\xd8\xff" not in (kb_folder / "answers.sqlite").read_bytes()
    assert files_with(kb_folder, *needles) == set()
