"""The start page, addresses of answers, the gallery, and the page of a unit."""

import re

from ku_rag import KnowledgeBase, Unit
from tests.serve.conftest import serving
from tests.serve.test_pages import ask


def links(page):
    return [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]*)"', page.text)]


def test_the_start_page_shows_the_base_and_asks_its_examples(client, served):
    page = client.get("/")
    counts = served.stats().counts
    assert f"{counts['units']} units, {counts['images']} pictures" in page.text
    assert len(re.findall(r'<a href="/units/[^"]+"><img', page.text)) == min(8, counts["units"])
    examples = [link for link in links(page) if link.startswith("/?question=")]
    assert len(examples) == len(served.examples()) > 0
    assert any("&image=" in link for link in examples)
    for link in examples:
        answered = client.get(link).text
        assert '<section class="verdict"' in answered
        assert "There is no answer" not in answered


def test_a_question_has_an_address_and_a_report(served):
    with serving(served, answers=0) as client:
        page = ask(client, "Which country does the Mango come from?")
        (address,) = (link for link in links(page) if link.startswith("/?question=Which"))
        again = client.get(address).text
        assert re.search("<h2>Peru</h2>", again)
        (report,) = (link for link in links(page) if link.startswith("/report?"))
        file = client.get(report)
        assert file.headers["content-disposition"] == 'attachment; filename="answer.html"'
        assert "Peru" in file.text
        assert client.get("/report").status_code == 422


def test_an_uploaded_picture_has_no_address_unless_it_is_stored(served, fruit_base):
    photo = next((fruit_base / "Mango").glob("*.png")).read_bytes()
    fields = {"question": (None, "What is this?"), "image": ("a.png", photo, "image/png")}
    with serving(served, answers=0) as client:
        page = client.post("/", files=fields)
    assert "<h2>Mango</h2>" in page.text
    assert "Link to this answer" not in page.text


def test_a_unit_that_is_chosen_for_an_unsure_picture_keeps_the_picture(fruit_base):
    photo = next((fruit_base / "Mango").glob("*.png")).read_bytes()
    fields = {"question": (None, "Which country does it come from?"), "image": ("a.png", photo)}
    path = fruit_base.with_name("kb")
    with KnowledgeBase.open(path, confidence_threshold=1) as kb, serving(kb) as client:
        page = client.post("/", files=fields)
        (address,) = (link for link in links(page) if "&unit=Mango&answer=" in link)
        chosen = client.get(address, headers={"Sec-Fetch-Site": "same-origin"})
        assert "<h2>Peru</h2>" in chosen.text
        [stored, before] = kb.answers.list()
        assert (stored.about, before.outcome) == ("Mango", "unsure")
        assert kb.answers.get(stored.id).data["size"] == kb.answers.get(before.id).data["size"]
    with KnowledgeBase.open(path, confidence_threshold=1) as kb, serving(kb, answers=0) as client:
        page = client.post("/", files=fields)  # the form in which the picture is still chosen
        assert '<button form="ask" name="unit" value="Mango">' in page.text
        [image] = client.get("/v1/units/Mango").json()["images"]
        page = client.post("/", files=fields | {"image": (None, image), "k": (None, "3")})
        (address,) = (link for link in links(page) if "&unit=Mango" in link)
        assert "k=3" in address.split("&")
        assert image.replace("/", "%2F") in address


def test_fields_of_a_form_that_are_blank_leave_the_address(client, served):
    for number in range(3):
        served.add(Unit(f"Tool {number}", id=f"t{number}", metadata={"price": number}))
    fields = {"text": "", "kind": "", ">=price": "1", "<=price": "", "where": "price<2"}
    page = client.get("/units", params=fields)
    assert str(page.url.raw_path, "ascii") == "/units?where=price%3C2&where=price%3E%3D1"
    assert re.findall("Tool .", page.text) == ["Tool 1"]
    page = client.get("/graph", params={"name": "Mango", "to": "", "relation": ""})
    assert dict(page.url.params) == {"name": "Mango"}


def test_evidence_is_labelled_by_the_names_of_units(client, served):
    served.add(Unit("Green lamp", id="lamp-17", texts=["The lamp from Ulm is green."]))
    page = ask(client, "What colour is the green lamp from Ulm?")
    assert '<a href="/units/lamp-17">Green lamp</a>' in page.text
    assert ">lamp-17<" not in page.text
    served.merge("Mango", "lamp-17")
    page = client.get(page.url.path)
    assert "/units/lamp-17" not in page.text
    assert '<a href="/units/Mango">' in page.text


def test_one_of_a_thing_is_counted_in_the_singular(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb, serving(kb) as client:
        kb.add(Unit("Lamp", texts=["It is red."]))
        assert re.search(r"1 unit, 0 pictures,\s+1 passage\.", client.get("/").text)


def test_a_stored_picture_is_asked_about_by_its_address(client, served):
    image = client.get("/v1/units/Mango").json()["images"][0]
    fields = {"question": "What is this?", "image": image}
    assert client.post("/v1/query", json=fields).json()["answer"] == "Mango"
    assert client.post("/v1/query", data=fields).json()["answer"] == "Mango"
    missing = {**fields, "image": "/v1/images/" + "0" * 64}
    assert client.post("/v1/query", json=missing).status_code == 404
    assert client.post("/v1/query", json={**fields, "image": "/etc/passwd"}).status_code == 422


def test_the_gallery_has_pictures_kinds_and_pages(client, served):
    page = client.get("/units")
    image = client.get("/v1/units/Mango").json()["images"][0]
    assert f'<img src="{image}?size=320"' in page.text
    for kind, count in served.kinds().items():
        assert f">{kind} ({count})" in page.text
    served.add_many([Unit(f"Fruit {number:03}", id=f"fruit-{number}") for number in range(60)])
    first = client.get("/units")
    (following,) = {link for link in links(first) if "offset=" in link}
    second = client.get(following)
    assert 'rel="prev"' in second.text
    assert 'rel="next"' not in second.text
    ids = re.findall(r'<li>\s*<a href="/units/([^"]+)"', first.text + second.text)
    assert len(ids) == len({*ids}) == served.stats().counts["units"]


def test_units_with_similar_pictures_are_found(client):
    digest = client.get("/v1/units/Mango").json()["images"][0].rpartition("/")[2]
    assert f"/units?like={digest}" in links(client.get("/units/Mango"))
    page = client.get("/units", params={"like": digest})
    assert re.search(r'<li data-score="[.\d]+">\s*<a href="/units/Mango"', page.text)
    assert client.get("/units", params={"like": "../x"}).status_code == 422


def test_the_graph_is_drawn_and_searched(client):
    assert "The base has no relations." in client.get("/graph").text
    for name, relation, target in [("Mango", "grows in", "Peru"), ("Papaya", "grows in", "Peru")]:
        related = {"relations": [{"relation": relation, "target": target}]}
        client.post("/v1/units", json={"name": name, **related})
    assert client.get("/graph").text.count("<circle") == 3
    joined = client.get("/graph", params={"name": "Mango", "to": "Papaya"}).text
    assert re.search(r'<p class="path">\s*<span> <a href="/units/Mango">Mango</a>', joined)
    assert 'stroke-width="3"' in joined
    assert joined.count('class="marked"') == 2
    missing = client.get("/graph", params={"name": "Durian"}).text
    assert "there is no entity &#39;Durian&#39;" in missing


def test_no_example_asks_for_a_value_that_all_units_have(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name, price in (("Lamp", 5), ("Cup", 7)):
            kb.add(Unit(name, metadata={"licence": "CC0", "price": price}))
        questions = [example.question for example in kb.examples()]
    assert "What is the price of Cup?" in questions
    assert not any("licence" in question for question in questions)


def test_evidence_that_is_not_cited_is_folded(client):
    page = ask(client, "Which country does the Mango come from?").text
    cited, _, further = page.partition("further pieces of evidence</summary>")
    assert 'class="cited"' in cited
    assert 'class="cited"' not in further


def test_a_merge_shows_the_values_that_it_does_not_keep(client, served):
    served.add(Unit("Lamp", id="a", metadata={"price": "5 EUR", "colour": "red"}))
    served.add(Unit("Torch", id="b", metadata={"price": "7 EUR", "colour": "red"}))
    page = client.get("/units/a?other=b").text
    assert "price: 5 EUR is kept, 7 EUR is not." in page
    assert "red is not" not in page
