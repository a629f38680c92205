"""Citations of PDF files link to the cited page."""

import re
import shutil
from html import unescape
from io import BytesIO

import pytest
from fastapi.testclient import TestClient
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from ku_rag import KnowledgeBase
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.app import create_app

BROWSER = {"Accept": "text/html"}
QUESTION = {"question": (None, "What is the lock time?")}


@pytest.fixture
def manual(tmp_path):
    """A PDF file of three pages in a separate base, tmp_path/manuals."""
    path = tmp_path / "files" / "manual.pdf"
    path.parent.mkdir()
    canvas = Canvas(str(path), pagesize=(600, 800))
    for line in ("The pump is heavy.", "Lock time: 30 seconds", "The rotor turns left."):
        canvas.setFont("Helvetica", 20)
        canvas.drawString(100, 400, line)
        canvas.showPage()
    canvas.save()
    with KnowledgeBase.open(tmp_path / "manuals", create=True) as kb:
        kb.ingest(path)
    return path


@pytest.fixture
def client(served, manual, tmp_path):
    """A client of a server of two bases; the second, "manuals", has the PDF file."""
    with KnowledgeBase.open(tmp_path / "manuals", read_only=True) as kb:
        app = create_app({"default": served, "manuals": kb})
        with TestClient(app, base_url="http://localhost") as client:
            yield client


@pytest.fixture
def address(client):
    """The address of the cited page in the page of the answer."""
    page = client.post("/?kb=manuals", files=QUESTION).text
    links = re.findall(r'<a href="([^"]+)">page 2</a>', page)
    (picture,) = re.findall(r'<img class="page" src="([^"]+)" loading="lazy" alt="Page 2', page)
    assert links == [picture]
    return unescape(picture)


def test_a_citation_leads_to_its_page_with_a_box(client, address):
    reply = client.get(address, headers=BROWSER)
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "image/png"
    assert reply.headers["Cache-Control"] == "private"
    assert "kb=manuals" in address
    box = [float(share) for share in re.findall(r"box=([\d.]+)", address)]
    with Image.open(BytesIO(reply.content)) as image:
        assert image.size == (834, 1112)
        colours = dict(map(reversed, image.getcolors(1_000)))
    area = 834 * (box[2] - box[0]) * 1112 * (box[3] - box[1])
    assert area / 2 < colours[255, 241, 169] < 1.5 * area  # the fill, without letters
    assert colours[40, 30, 0] > 1_000  # the outline of two pixels


def test_a_page_that_a_client_has_is_not_sent_again(client, address):
    tag = client.get(address).headers["ETag"]
    again = client.get(address, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    without_box = client.get(re.sub(r"&?box=[\d.]+", "", address), headers={"If-None-Match": tag})
    assert without_box.status_code == 200
    assert without_box.headers["ETag"] != tag


def test_a_page_without_a_box_is_served(client, address):
    reply = client.get(re.sub(r"&?box=[\d.]+", "", address))
    with Image.open(BytesIO(reply.content)) as image:
        assert (255, 241, 169) not in [colour for _, colour in image.getcolors(1_000)]


@pytest.mark.parametrize(
    ("spoil", "status", "words"),
    [
        (lambda file: file.unlink(), 404, "manual.pdf is not there"),
        (lambda file: file.write_bytes(file.read_bytes() + b"%"), 409, "manual.pdf was changed"),
        (lambda file: shutil.copy("/etc/passwd", file), 409, "manual.pdf was changed"),
        (lambda file: (file.unlink(), file.mkdir()), 422, "manual.pdf is a folder"),
    ],
)
def test_a_file_that_is_gone_or_changed_is_not_shown(client, manual, address, spoil, status, words):
    spoil(manual)
    page = client.get(address, headers=BROWSER)
    assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert words in page.text
    problem = client.get(address)
    assert problem.headers["Content-Type"] == "application/problem+json"
    assert words in problem.json()["detail"]
    assert str(manual.parent) not in page.text + problem.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chunks/999/pages/1?kb=manuals", 404),
        ("/v1/chunks/1/pages/1", 404),  # of the default base, which has no PDF file
        ("/v1/chunks/1/pages/7?kb=manuals", 422),
        ("/v1/chunks/1/pages/0?kb=manuals", 422),
        ("/v1/chunks/0/pages/1?kb=manuals", 422),
        (f"/v1/chunks/{10**30}/pages/1?kb=manuals", 422),
        ("/v1/chunks/..%2f..%2fetc/pages/1?kb=manuals", 404),
        ("/v1/chunks/1/pages/1?kb=manuals&box=1&box=2", 422),
        ("/v1/chunks/1/pages/1?kb=manuals&box=nan&box=0&box=1&box=1", 422),
        ("/v1/chunks/1/pages/1?kb=manuals&box=x", 422),
        ("/v1/chunks/1/pages/1?kb=manuals&box=1&box=0&box=0&box=1", 422),
    ],
)
def test_nothing_else_is_shown(client, path, status):
    reply = client.get(path)
    assert reply.status_code == status
    assert "cannot be parsed" not in reply.text


def test_pages_need_a_key(manual, tmp_path):
    with KnowledgeBase.open(tmp_path / "manuals", read_only=True) as kb:
        settings = ServerSettings(keys=["writer"], read_only_keys=["reader"])
        app = create_app({"default": kb}, settings)
        with TestClient(app, base_url="http://localhost") as client:
            assert client.get("/v1/chunks/1/pages/2").status_code == 401
            key = {"Authorization": "Bearer reader"}
            assert client.get("/v1/chunks/1/pages/2", headers=key).status_code == 200
