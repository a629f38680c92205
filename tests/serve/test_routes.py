from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Unit
from tests.serve.conftest import data_uri, serving


@pytest.fixture
def mango(fruit_base):
    return fruit_base / "Mango" / "photo.png"


def test_a_form_and_json_give_the_answer_of_the_method(client, served, mango):
    body = {"question": "Which country does it come from?", "k": 2}
    expected = served.query(mango, body["question"], k=2).to_dict()
    by_json = client.post("/v1/query", json={**body, "image": data_uri(mango)})
    by_form = client.post("/v1/query", data=body, files={"image": mango.read_bytes()})
    for answer in (by_json.json(), by_form.json()):
        assert answer["answer"] == expected["answer"] == "Peru"
        assert answer.keys() == expected.keys()
        assert answer["units"][0]["image"].startswith("/v1/images/")
        assert [chunk["text"] for chunk in answer["chunks"]] == [
            chunk["text"] for chunk in expected["chunks"]
        ]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("query", {"no_table_mining": True}, "need method="),
        ("plan", {"strict": "kurag"}, "makes no plan"),
        ("plan", {"strict": "cogplanner"}, "plans with a model"),
    ],
)
def test_options_that_would_change_nothing_are_refused(client, path, options, message):
    refused = client.post(f"/v1/{path}", json={"question": "Which country?", **options})
    assert refused.status_code >= 400
    assert message in refused.text


@pytest.mark.parametrize(
    ("path", "field"),
    [("plan", "k"), ("plan", "unit"), ("plan", "method"), ("plan", "stream"),
     ("evidence-graph", "where"), ("evidence-graph", "unit"), ("search", "method")],
)  # fmt: skip
def test_fields_that_a_route_does_not_have_are_refused(client, path, field):
    values = {"k": 2, "where": ["a=b"], "stream": True}
    body = {"text": "x"} if path == "search" else {"question": "Which country?"}
    refused = client.post(f"/v1/{path}", json=body | {field: values.get(field, "evidence")})
    assert (refused.status_code, refused.json()["code"]) == (422, "BadInput")
    assert refused.json()["detail"].startswith(f"{field}: ")


def test_parameters_that_a_route_does_not_have_are_refused(client):
    for address in ("/v1/units?k=3", "/v1/stats?unit=Mango", "/v1/search?k=3"):
        method = "POST" if "search" in address else "GET"
        refused = client.request(method, address, json={"text": "x"})
        assert (refused.status_code, refused.json()["code"]) == (422, "BadInput")
    assert "k: expected only limit, offset, kind, where, kb" in client.get("/v1/units?k=3").text
    assert client.get("/v1/units?kb=default").status_code == 200


def test_search_and_look(client, mango):
    assert len(client.post("/v1/search", json={"text": "sweet", "k": 1}).json()["chunks"]) == 1
    result = client.post("/v1/search", json={"image": data_uri(mango), "text": "sweet"}).json()
    assert result["units"][0]["id"] == "Mango"
    assert client.post("/v1/look", files={"image": mango.read_bytes()}).json()["units"][0]["image"]


def test_units_are_listed_page_by_page(client):
    first = client.get("/v1/units", params={"limit": 1}).json()
    second = client.get("/v1/units", params={"offset": first["next_offset"]}).json()
    assert [first["items"][0]["id"], second["items"][0]["id"]] == ["Kiwi", "Mango"]
    assert second["next_offset"] is None


def test_a_unit_comes_back_as_it_was_put(client, served):
    record = {
        "name": "Lamp",
        "texts": [f"It is red. See {served.path}/lamp.txt"],
        "tables": [{"name": "Sizes", "header": ["image", "b"], "rows": [["/a/b/c", "2"]]}],
        "relations": [{"relation": "stands on", "target": "Floor"}],
        "metadata": {
            "image": "/shelf/a/b",
            "source": "/a/b/c/d",
            "nested": [{"uri": "/x/y/z#1", "images": ["/a"]}],
            "why": f"{served.path}/lamp.txt",
        },
    }
    assert client.put("/v1/units/lamp", json=record).json()["units_added"] == 1
    response = client.get("/v1/units/lamp")
    assert {key: response.json()[key] for key in record} == record
    assert client.put("/v1/units/lamp", json=response.json()).is_success
    again = client.get("/v1/units/lamp")
    assert again.headers["etag"] == response.headers["etag"]
    assert client.get("/v1/tables", params={"unit": "lamp"}).json()["items"] == record["tables"]


def test_integers_may_have_more_than_64_bits(client):
    record = {"id": "aa", "name": "aa", "metadata": {"x": 9999999999999999999999}}
    assert client.post("/v1/units", json=record).status_code == 201
    response = client.get("/v1/units/aa")
    assert response.json()["metadata"] == record["metadata"]
    [item] = [unit for unit in client.get("/v1/units").json()["items"] if unit["id"] == "aa"]
    assert item["metadata"] == record["metadata"]
    assert "9999999999999999999999" in client.get("/units/aa").text
    assert client.get("/v1/graph/entities/aa").json()["metadata"] == record["metadata"]
    headers = {"If-Match": response.headers["etag"]}
    assert client.delete("/v1/units/aa", headers=headers).json()["units"] == ["aa"]


def test_a_unit_that_was_changed_meanwhile_is_not_overwritten(client):
    headers = {"If-Match": client.get("/v1/units/Mango").headers["etag"]}
    assert client.patch("/v1/units/Mango", json={"kind": "fruit"}, headers=headers).is_success
    for refused in (
        client.patch("/v1/units/Mango", json={"kind": "tree"}, headers=headers),
        client.put("/v1/units/Mango", json={"name": "Mango"}, headers=headers),
        client.delete("/v1/units/Mango", headers=headers),
    ):
        assert (refused.status_code, refused.json()["title"]) == (412, "Precondition Failed")
    assert client.get("/v1/units/Mango").json()["kind"] == "fruit"


def test_a_part_of_a_picture_is_sent(client, mango):
    [address] = client.get("/v1/units/Mango").json()["images"]
    part = client.get(address, headers={"Range": "bytes=4-9"})
    assert (part.status_code, part.content) == (206, mango.read_bytes()[4:10])
    assert part.headers["Content-Range"] == f"bytes 4-9/{mango.stat().st_size}"
    assert client.get(address, headers={"Range": "bytes=9999999-"}).status_code == 416


def test_units_are_deleted_all_or_none(client):
    refused = client.delete("/v1/units", params={"ids": ["Kiwi", "nothing"]})
    assert (refused.status_code, refused.json()["code"]) == (404, "NotFound")
    deleted = client.delete("/v1/units", params={"ids": ["Kiwi", "Mango"]}).json()["units"]
    assert sorted(deleted) == ["Kiwi", "Mango"]
    assert client.delete("/v1/units").status_code == 422


def test_the_size_and_the_kinds_of_a_base(client, served):
    assert client.get("/v1/stats").json() == served.stats().to_dict()
    assert client.get("/v1/kinds").json() == served.kinds()


def test_wrong_fields_are_reported_like_wrong_arguments(client):
    for body, words in (({"text": "x", "unit": "Kiwi"}, "unit: "), ({"text": "x", "k": 0}, "k: ")):
        refused = client.post("/v1/search", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "BadInput")
        assert refused.json()["detail"].startswith(words)


def test_the_document_has_examples_of_bodies(client):
    document = client.get("/openapi.json").json()
    bodies = {
        path: document["paths"][f"/v1/{path}"]["post"]["requestBody"]["content"]
        for path in ("query", "search", "units", "ingest")
    }
    assert bodies["query"]["application/json"]["schema"]["properties"]["question"]["examples"]
    assert bodies["search"]["application/json"]["schema"]["properties"]["text"]["examples"]
    assert bodies["units"]["application/json"]["schema"]["examples"]
    reference = bodies["ingest"]["multipart/form-data"]["schema"]["$ref"].rpartition("/")[2]
    assert document["components"]["schemas"][reference]["properties"]["names"]["examples"]
    for name in ("UndoBody", "MergeBody"):
        assert document["components"]["schemas"][name]["properties"]["unit"]["examples"]


def test_changes_of_a_unit_are_listed_and_undone(client, guarded):
    tag = client.get("/v1/units/Mango").headers["etag"]
    assert client.patch("/v1/units/Mango", json={"kind": "fruit", "images": []}).is_success
    [change] = client.get("/v1/history", params={"unit": "Mango"}).json()["items"]
    assert change["fields"]["kind"] == ["entity", "fruit"]
    [[image], none] = change["fields"]["images"]
    assert (image.startswith("/v1/images/"), none) == (True, [])
    undo = {"unit": "Mango", "number": change["number"]}
    stale = client.post("/v1/undo", json=undo, headers={"If-Match": tag})
    assert stale.status_code == 412
    assert client.post("/v1/undo", json=undo).json()["action"] == "updated"
    assert client.get("/v1/units/Mango").json()["images"] == [image]
    assert client.post("/v1/undo", json={"unit": "Mango", "number": 10**6}).status_code == 404
    assert client.post("/v1/undo", json=undo | {"numbre": 1}).status_code == 422
    assert client.get("/v1/history", params={"unit": "Lamp"}).status_code == 404
    for path in ("/v1/undo", "/v1/merge"):
        reader = {"Authorization": "Bearer reader"}
        body = {"unit": "Mango"} | ({"other": "Kiwi"} if path == "/v1/merge" else {})
        assert guarded.post(path, json=body, headers=reader).status_code == 403


def test_units_are_merged(client, served):
    both = {"unit": "Mango", "other": "Kiwi"}
    preview = client.post("/v1/merge", json=both | {"dry_run": True}).json()
    assert (preview["aliases"], len(served.list())) == (["Kiwi"], 2)
    stale = client.post("/v1/merge", json=both, headers={"If-Match": '"x"'})
    assert (stale.status_code, len(served.list())) == (412, 2)
    assert client.post("/v1/merge", json=both).json() == preview
    assert client.get("/v1/units/Kiwi").json()["id"] == "Mango"
    assert client.post("/v1/merge", json=both).status_code == 422
    assert client.post("/v1/merge", json=both | {"other": "Lamp"}).status_code == 404


@pytest.mark.parametrize("path", ["/v1/query", "/v1/units", "/v1/merge", "/login", "/mcp"])
def test_a_body_that_is_too_large_is_a_problem(client, path):
    body = b" " * (33 << 20)
    headers = {"Content-Type": "application/json"}
    replies = [client.post(path, content=body, headers=headers)]
    if path.startswith("/v1"):  # without a length
        replies.append(client.post(path, content=iter([body]), headers=headers))
    for reply in replies:
        assert reply.status_code == 413
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["status"] == 413


def test_an_upload_may_be_larger(client):
    files = {"files": ("large.bin", bytes(33 << 20))}
    assert client.post("/v1/ingest", files=files).status_code == 202


def test_facets_and_examples(client, served):
    for number in range(4):
        served.add(Unit(f"Tool {number}", id=f"t{number}", kind="tool", metadata={"price": number}))
    facets = client.get("/v1/facets", params={"kind": "tool", "where": "price>0"}).json()
    assert facets == served.facets(kind="tool", where="price>0").to_dict()
    assert (facets["units"], facets["facets"][0]["low"]) == (3, 1)
    examples = client.get("/v1/examples", params={"count": 2}).json()["items"]
    assert examples == [example.to_dict() for example in served.examples(2)]


def test_a_put_that_fails_keeps_the_unit(client, served):
    before = client.get("/v1/units/Mango").json()
    broken = {"name": "Mango", "images": ["data:image/png;base64,AAAA"]}
    assert client.put("/v1/units/Mango", json=broken).status_code == 422
    assert client.put("/v1/units/Mango", json={"name": ""}).status_code == 422
    assert client.get("/v1/units/Mango").json() == before
    assert served.verify().ok


def test_pictures_and_relations_of_a_unit_are_changed(client, served, fruit_base):
    kiwi = data_uri(fruit_base / "Kiwi" / "photo.png")
    grown = {"relation": "grown in", "target": "Peru"}
    likes = {"relation": "likes", "target": "Sun", "information": "much", "condition": "in May"}
    [mango] = client.get("/v1/units/Mango").json()["images"]

    def change(**changes):
        assert client.patch("/v1/units/Mango", json=changes).is_success
        return client.get("/v1/units/Mango").json()

    unit = change(images=[mango, kiwi], relations=[grown, likes])
    [added] = {*unit["images"]} - {mango}
    assert unit["relations"] == [grown, likes]
    assert change(images=[added])["images"] == [added]
    unit = change(relations=[likes, grown | {"condition": "always"}])
    assert sorted(unit["relations"], key=str) == [grown | {"condition": "always"}, likes]
    assert change(relations=[])["relations"] == []
    for wrong in (
        {"relations": [{"relation": "", "target": "x"}]},
        {"relations": [{"relation": "is in", "target": "x", "target_kind": "room"}]},
        {"images": ["/etc/passwd"]},
    ):
        assert client.patch("/v1/units/Mango", json=wrong).status_code == 422
    assert len(served.show("Mango").images) == 1
    assert served.verify().ok


def test_videos_are_named_without_their_folders(client, served, tmp_path):
    record = {"entity": "Kea", "id": "kea", "videos": ["film/kea.mp4"]}
    (tmp_path / "film").mkdir()
    (tmp_path / "film" / "kea.mp4").write_bytes(b"no video")
    (tmp_path / "graph.jsonl").write_text(json.dumps(record))
    served.graph.import_file(tmp_path / "graph.jsonl")
    assert served.show("kea").metadata["videos"] == [str(tmp_path / "film" / "kea.mp4")]
    response = client.get("/v1/units/kea")
    assert response.json()["metadata"]["videos"] == ["film/kea.mp4"]
    for path in ("/v1/units", "/v1/graph/entities/kea", "/units/kea"):
        page = client.get(path).text
        assert "film/kea.mp4" in page
        assert str(tmp_path) not in page
    assert client.put("/v1/units/kea", json=response.json()).is_success
    assert client.get("/v1/units/kea").json()["metadata"]["videos"] == ["film/kea.mp4"]


def test_deleting_takes_an_id_and_no_name(client):
    client.put("/v1/units/m1", json={"name": "Medlar", "texts": ["brown"]})
    assert client.delete("/v1/units/Medlar").status_code == 404
    assert client.delete("/v1/units/m1").json()["units"] == ["m1"]
    assert client.get("/v1/units/m1").status_code == 404


def test_pictures_have_tags_and_sizes(client, mango):
    address = client.get("/v1/units/Mango").json()["images"][0]
    whole = client.get(address)
    assert whole.content == mango.read_bytes()
    assert whole.headers["content-type"] == "image/png"
    assert len(client.get(address, params={"size": 32}).content) > 0
    cached = client.get(address, headers={"If-None-Match": whole.headers["etag"]})
    assert (cached.status_code, cached.content) == (304, b"")


def test_pictures_that_are_linked_have_addresses(fruit_base, tmp_path):
    mango = fruit_base / "Mango" / "photo.png"
    with KnowledgeBase.open(tmp_path / "linking", create=True, images="link") as base:
        base.ingest(fruit_base)
        with serving(base) as client:
            [address] = client.get("/v1/units/Mango").json()["images"]
            assert client.get(address).content == mango.read_bytes()
            for refused in (
                client.put("/v1/units/x", json={"name": "x", "images": [address]}),
                client.post("/v1/ingest", files={"files": ("x.txt", b"x")}),
            ):
                assert (refused.status_code, refused.json()["code"]) == (409, "Refused")


def test_the_graph(client):
    client.put(
        "/v1/units/lamp",
        json={"name": "Lamp", "relations": [{"relation": "stands on", "target": "Floor"}]},
    )
    assert client.get("/v1/graph/entities/lamp").json()["out"][0]["tail"]["name"] == "Floor"
    assert client.get("/v1/graph/relations").json()["items"][0]["relation"] == "stands on"
    [path] = client.get("/v1/graph/paths", params={"start": "lamp"}).json()["items"]
    assert path["entities"] == ["Lamp", "Floor"]
    around = client.get("/v1/graph/neighbourhood", params={"name": "lamp"}).json()
    assert [node["name"] for node in around["nodes"]] == ["Lamp", "Floor"]


def test_the_evidence_graph(client):
    body = {"question": "Which country does the Mango come from?"}
    graph = client.post("/v1/evidence-graph", json=body).json()
    assert {"Mango", "Peru"} <= {node["name"] for node in graph["nodes"]}


def test_uploads_are_ingested_with_progress(client):
    files = [
        ("files", ("Pear/about.txt", b"Title: Pear\nColour: green\n")),
        ("files", ("left.xyz", b"abc")),
    ]
    options = {"files": files, "headers": {"Idempotency-Key": "one"}}
    started = client.post("/v1/ingest", **options)
    assert started.status_code == 202
    events = client.get(started.headers["location"] + "/events").text
    last = json.loads(events.strip().rpartition("data: ")[2])
    assert last["state"] == "done"
    assert last["report"]["units_added"] == 1
    assert last["report"]["quarantined"][0]["item"] == "left.xyz"
    assert client.get("/v1/units/Pear").json()["sources"][0]["uri"] == "Pear/about.txt"
    assert client.post("/v1/ingest", **options).json()["id"] == last["id"]
    again = client.post("/v1/ingest", files=files).headers["location"]
    client.get(again + "/events")
    assert client.get(again).json()["report"]["units_unchanged"] == 1


def test_no_response_names_a_folder_of_the_machine(client, served, fruit_base):
    mango = fruit_base / "Mango" / "photo.png"
    body = {"question": "Which country does it come from?", "image": data_uri(mango)}
    client.put("/v1/units/Kiwi", json={"name": "Kiwi", "images": [data_uri(mango)]})
    for response in (
        client.post("/v1/query", json=body),
        client.post("/v1/evidence-graph", json=body),
        client.post("/v1/search", json={"text": "sweet"}),
        client.get("/v1/units/Mango"),
        client.get("/v1/graph/entities/Mango"),
        client.put("/v1/units/x", json={"name": "x", "images": ["data:image/png;base64,AAAA"]}),
        client.put("/v1/units/x", json={"name": "x", "images": ["../../etc/passwd"]}),
        client.get("/v1/units/nothing"),
        client.get("/metrics"),
        client.get("/openapi.json"),
    ):
        assert str(served.path) not in response.text
        assert str(fruit_base.parent) not in response.text
        assert "/tmp" not in response.text


@pytest.mark.parametrize("path", ["/v1/completions", "/api/tags", "/nothing"])
def test_paths_of_foreign_interfaces_do_not_exist(client, path):
    for response in (client.get(path), client.post(path, json={})):
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"


def test_an_index_that_cannot_be_reached_is_a_problem_of_now(fruit_base):
    pytest.importorskip("pymilvus", reason="needs the extra milvus")
    settings = {"index_engine": "milvus", "index_uri": "http://127.0.0.1:9"}
    with (
        KnowledgeBase.open(
            fruit_base.with_name("kb"), index_unreachable="fail", **settings
        ) as base,
        serving(base) as client,
    ):
        response = client.post("/v1/search", json={"text": "Which fruit is sweet?"})
        assert (response.status_code, response.json()["code"]) == (503, "IndexUnavailable")
        assert "Retry-After" in response.headers


def test_options_without_effect_are_refused(client):
    query = {"question": "Which fruit is from Peru?"}
    for option, expected in (
        ({"no_table_mining": True}, "options of an evidence graph"),
        ({"strict": "mhmmkg", "no_kcc": True}, "does not use kcc=False"),
    ):
        refused = client.post("/v1/query", json={**query, **option})
        assert (refused.status_code, refused.json()["code"]) == (422, "BadInput")
        assert expected in refused.json()["detail"]
    assert client.post("/v1/query", json={**query, "no_table_mining": False}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("POST", "/v1/query", {}, "question: field required"),
        ("POST", "/v1/query", {"question": 5}, "question: input should be a valid string"),
        ("POST", "/v1/search", {"text": "a", "zzz": 1}, "zzz: extra inputs are not permitted"),
        (
            "PATCH",
            "/v1/units/Mango",
            {"relations": [{"relation": "near"}]},
            "relations, item 1, target: field required",
        ),
        (
            "GET",
            "/v1/units?limit=x",
            None,
            "limit: input should be a valid integer, unable to parse string as an integer",
        ),
    ],
)
def test_a_wrong_field_is_named_in_words(client, method, path, body, detail):
    problem = client.request(method, path, json=body)
    assert (problem.status_code, problem.json()["detail"]) == (422, detail)
