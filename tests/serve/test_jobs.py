from __future__ import annotations

import resource
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import ModelFailed
from tests.conftest import connect
from tests.serve.conftest import data_uri, serving

FILE = ("files", ("Pear/about.txt", b"Title: Pear\nColour: green\n"))
MELON = ("files", ("Melon/about.txt", b"Melons are sweet.\n"))


def ended(client, location):
    client.get(location + "/events")
    return client.get(location).json()


def upload(client, *files):
    return client.post("/v1/ingest", files=[*files]).headers["location"]


def folders_in(uploads):
    """The folders and links in a folder of uploads, which may not exist."""
    return sorted(path for path in uploads.glob("*") if path.is_dir())


def test_an_ingest_waits_for_a_writer_in_another_process(client, served):
    with KnowledgeBase.open(served.path) as writer:
        with writer.transaction():
            location = upload(client, FILE)
            time.sleep(1)
            assert client.get(location).json()["state"] == "running"
            change = client.patch("/v1/units/Mango", json={"kind": "fruit"})
            assert (change.status_code, change.json()["code"]) == (423, "Locked")
            assert change.headers["retry-after"]
            assert client.post("/v1/search", json={"text": "sweet"}).status_code == 200
        assert ended(client, location)["state"] == "done"
    assert client.patch("/v1/units/Mango", json={"kind": "fruit"}).is_success


def test_an_ingest_can_be_cancelled(client, served):
    with KnowledgeBase.open(served.path) as writer, writer.transaction():
        location = upload(client, FILE)
        assert client.delete(location).status_code == 202
        assert ended(client, location)["state"] == "cancelled"
    assert client.get("/v1/units/Pear").status_code == 404
    assert folders_in(served.path / "uploads") == []


def test_what_waits_at_the_end_of_a_server_is_done_by_the_next(served):
    with (
        KnowledgeBase.open(served.path) as writer,
        writer.transaction(),
        serving(served) as client,
    ):
        locations = [upload(client, FILE), upload(client, MELON), upload(client, MELON)]
        assert client.delete(locations[1]).status_code == 202
    assert [unit.id for unit in served.list()] == ["Kiwi", "Mango"]
    with serving(served) as client:
        states = [ended(client, location)["state"] for location in locations]
    assert states == ["done", "cancelled", "done"]
    assert [unit.id for unit in served.list()] == ["Kiwi", "Mango", "Melon", "Pear"]
    assert folders_in(served.path / "uploads") == []


def test_accepting_waits_for_no_other_writer(client, served):
    upload(client, FILE)
    with KnowledgeBase.open(served.path) as writer, writer.transaction():
        writer.add(Unit("Plum", texts=["Plums are blue."]))
        for number in range(3):  # each change would fail after .5 s
            name = f"Fig {number}/about.txt"
            assert client.post("/v1/ingest", files={"files": (name, b"Sweet.")}).status_code == 202


def test_a_file_that_is_uploaded_again_changes_nothing(served, tmp_path):
    with serving(served) as client:
        ended(client, upload(client, FILE))
        served.snapshot(tmp_path / "before")
        report = ended(client, upload(client, FILE))["report"]
    assert (report["units_added"], report["units_unchanged"]) == (0, 1)
    served.snapshot(tmp_path / "after", since=tmp_path / "before")
    assert not (tmp_path / "after").exists()
    [uri] = [source.uri for source in served.show("Pear").sources]
    assert uri == f"{served.path}/uploads/Pear/about.txt"


def test_uploads_keep_their_names_when_the_base_is_moved(served, tmp_path):
    with serving(served) as client:
        ended(client, upload(client, FILE))
    moved = shutil.copytree(served.path, tmp_path / "moved")
    with KnowledgeBase.open(moved) as base, serving(base) as client:
        report = ended(client, upload(client, FILE, ("files", ("x.xyz", b"x"))))["report"]
        assert (report["units_added"], report["units_unchanged"]) == (0, 1)
        assert [left_out["item"] for left_out in report["quarantined"]] == ["x.xyz"]
        [source] = client.get("/v1/units/Pear").json()["sources"]
    assert source["uri"] == "Pear/about.txt"


def test_uploads_of_a_base_of_0_3_0_are_recognised(served):
    """That version moved the files of a job to uploads/ and ingested this folder."""
    file = served.path / "uploads" / "Pear" / "about.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(FILE[1][1])
    served.ingest(served.path / "uploads")
    with serving(served) as client:
        assert not file.parent.exists()  # files that a killed server of that version left
        assert ended(client, upload(client, FILE))["report"]["units_unchanged"] == 1


def test_a_job_is_kept_for_a_day_after_its_end(served):
    ask = {"files": [FILE], "headers": {"Idempotency-Key": "one"}}
    with serving(served) as client:
        [address, failed] = [
            client.post("/v1/ingest", **ask).headers["location"],
            upload(client, ("files", ("x.xyz", b"x"))),
        ]
        jobs = [ended(client, address), ended(client, failed)]
    almost, later = time.time() + 86_000, time.time() + 86_500
    with serving(served, clock=lambda: almost) as client:
        assert [client.get(address).json(), client.get(failed).json()] == jobs
        assert client.post("/v1/ingest", **ask).json() == jobs[0]
    with serving(served, clock=lambda: later) as client:
        latest = upload(client, MELON)
        ended(client, latest)
        codes = [client.get(location).status_code for location in (address, failed, latest)]
        assert codes == [404, 404, 200]
        assert client.post("/v1/ingest", **ask).json()["state"] == "queued"


def test_strays_are_removed_and_files_of_jobs_stay(served):
    with (
        KnowledgeBase.open(served.path) as writer,
        writer.transaction(),
        serving(served) as client,
    ):
        location = upload(client, FILE)
    uploads = served.path / "uploads"
    [waiting] = folders_in(uploads)
    outside = served.path.with_name("outside")
    (outside / "inner").mkdir(parents=True)
    (uploads / ("0" * 32)).mkdir()
    (uploads / "stray.txt").write_text("x")
    (uploads / "link").symlink_to(outside)
    serving(served)  # serves nothing yet
    assert len(folders_in(uploads)) == 3
    with (
        KnowledgeBase.open(served.path) as writer,
        writer.transaction(),
        serving(served) as client,
    ):
        assert folders_in(uploads) == [waiting]
        assert not (uploads / "stray.txt").exists()
        assert [*outside.iterdir()] == [outside / "inner"]
    with serving(served) as client:
        assert ended(client, location)["state"] == "done"


def test_the_folder_of_uploads_cannot_lead_elsewhere(served, tmp_path):
    own = tmp_path / "own"
    (own / "notes").mkdir(parents=True)
    (served.path / "uploads").symlink_to(own)
    with serving(served) as client:
        answer = client.post("/v1/ingest", files=[FILE])
        assert (answer.status_code, answer.json()["code"]) == (409, "Refused")
    assert [*own.iterdir()] == [own / "notes"]


@pytest.mark.parametrize("folder", ["../../own", "0" * 32])
def test_a_row_of_a_foreign_base_names_no_other_folder(served, tmp_path, folder):
    own = tmp_path / "own"
    (own / "notes").mkdir(parents=True)
    (own / "secret.txt").write_text("The code is 1234.")
    with serving(served) as client:
        ended(client, upload(client, FILE))
    with closing(connect(served.path / "uploads" / "jobs.sqlite")) as connection:
        row = "INSERT INTO jobs (id, folder, content) VALUES ('x', ?, '')"
        connection.execute(row, (folder,))
    (served.path / "uploads" / ("0" * 32)).symlink_to(own)
    with serving(served) as client:
        job = ended(client, "/v1/jobs/x")
    assert (job["state"], job["error"]["code"]) == ("failed", "Corrupt")
    assert {path.name for path in own.iterdir()} == {"notes", "secret.txt"}


def test_a_read_only_server_leaves_uploads_alone(served):
    stray = served.path / "uploads" / ("0" * 32)
    stray.mkdir(parents=True)
    with serving(served, read_only=True) as client:
        assert client.post("/v1/ingest", files=[FILE]).status_code == 403
        assert client.get("/v1/jobs/x").status_code == 404
    assert [*stray.parent.iterdir()] == [stray]


def test_two_servers_run_one_job_at_a_time(served):
    with serving(served) as first, serving(served) as second:
        locations = [
            upload(client, ("files", (f"Fig {number}/about.txt", b"Sweet.")))
            for number, client in enumerate([first, second] * 3)
        ]
        jobs = [ended(first, location) for location in locations]
        assert jobs == [second.get(location).json() for location in locations]
    assert [job["report"]["units_added"] for job in jobs] == [1] * 6


def test_uploads_are_no_part_of_copies(served, tmp_path):
    with (
        KnowledgeBase.open(served.path) as writer,
        writer.transaction(),
        serving(served) as client,
    ):
        upload(client, FILE)
    served.snapshot(tmp_path / "copy")
    served.export(tmp_path / "export")
    assert served.verify().ok
    served.compact()
    for folder in (tmp_path / "copy", tmp_path / "export"):
        assert not [path for path in folder.rglob("*") if path.name in ("uploads", "about.txt")]
    assert len(folders_in(served.path / "uploads")) == 1


def test_a_damaged_list_of_jobs_stops_nothing_else(served):
    with (
        KnowledgeBase.open(served.path) as writer,
        writer.transaction(),
        serving(served) as client,
    ):
        upload(client, FILE)
    file = served.path / "uploads" / "jobs.sqlite"
    size = file.stat().st_size
    file.write_bytes(b"x" * size)
    with serving(served) as client:
        assert client.get("/readyz").status_code == 200
        refused = client.post("/v1/ingest", files=[FILE])
        assert (refused.status_code, refused.json()["code"]) == (500, "Corrupt")
        assert "upload again" in refused.json()["detail"]
    assert len(folders_in(file.parent)) == 1


def test_a_full_disk_accepts_nothing(client, served):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = ("files", ("large.txt", b"x" * 500_000))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        refused = client.post("/v1/ingest", files=[FILE, large])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (refused.status_code, refused.json()["title"]) == (507, "Insufficient Storage")
    assert folders_in(served.path / "uploads") == []
    assert ended(client, upload(client, FILE, large))["state"] == "done"


def test_pictures_of_requests_leave_nothing(client, served, fruit_base, monkeypatch, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    image = data_uri(fruit_base / "Mango" / "photo.png")
    for images, code in (([image], 201), ([image, "data:image/png;base64,AAAA"], 422)):
        answer = client.post("/v1/units", json={"id": "Fig", "name": "Fig", "images": images})
        assert answer.status_code == code
    assert folders_in(served.path / "uploads") == [*temporary.iterdir()] == []


def test_requests_with_one_key_start_one_job(client, served):
    def ask(_):
        headers = {"Idempotency-Key": "one"}
        return client.post("/v1/ingest", files=[FILE], headers=headers).json()["id"]

    with KnowledgeBase.open(served.path) as writer, writer.transaction():
        with ThreadPoolExecutor(4) as threads:
            assert len({*threads.map(ask, range(4))}) == 1
        assert len(folders_in(served.path / "uploads")) == 1


def test_a_key_stands_for_the_files_that_it_came_with(client):
    def ask(name, content):
        options = {"files": {"files": (name, content)}, "headers": {"Idempotency-Key": "one"}}
        return client.post("/v1/ingest", **options).status_code

    files = [("a.txt", b"a"), ("a.txt", b"a"), ("a.txt", b"b"), ("b.txt", b"a")]
    assert [ask(*file) for file in files] == [202, 202, 422, 422]


def test_a_base_whose_folder_is_gone_is_not_ready(client, served):
    shutil.rmtree(served.path)
    assert client.get("/readyz").status_code == 503
    refused = client.post("/v1/ingest", files=[FILE])
    assert (refused.status_code, refused.json()["code"]) == (503, "Closed")
    assert not served.path.exists()


def test_only_so_many_ingests_wait(client, served):
    with KnowledgeBase.open(served.path) as writer, writer.transaction():
        codes = [client.post("/v1/ingest", files=[FILE]).status_code for _ in range(11)]
    assert codes == [202] * 10 + [429]


@pytest.mark.parametrize(
    "name",
    ["../x.txt", "/etc/x.txt", "a/../../x.txt", "..\\x.txt", "C:x.txt", ".hidden.txt", "a//b.txt",
     "a/" * 20 + "x.txt", "x" * 300 + ".txt", "x\x01.txt", "nul\x7f.txt"],
)  # fmt: skip
def test_names_of_uploads_stay_inside(client, served, name):
    response = client.post("/v1/ingest", files={"files": ("x.txt", b"x")}, data={"names": name})
    assert (response.status_code, response.json()["code"]) == (422, "BadInput")
    assert not [*served.path.parent.glob("x.txt"), *served.path.glob("*.txt")]


def test_an_ingest_that_fails_says_why(client, served):
    location = upload(client, ("files", ("Pear/ku.sqlite", b"no database")))
    assert ended(client, location)["report"]["units_added"] == 0
    assert client.get("/v1/jobs/nothing").status_code == 404
    assert client.post("/v1/ingest").status_code == 422


def test_a_failed_ingest_is_tried_again_with_the_same_files(client, served, fruit_base):
    images, aside = served.path / "images", served.path / "aside"
    images.rename(aside)
    images.write_bytes(b"no folder")
    photo = (fruit_base / "Kiwi" / "photo.png").read_bytes()
    location = upload(client, FILE, ("files", ("Pear/photo.png", photo + b" ")))
    job = ended(client, location)
    assert (job["state"], job["can_retry"]) == ("failed", True)
    assert len(folders_in(served.path / "uploads")) == 1
    images.unlink()
    aside.rename(images)
    assert client.post(f"{location}/retry").status_code == 202
    job = ended(client, location)
    assert (job["state"], job["error"], job["can_retry"]) == ("done", None, False)
    assert len(served.show("Pear").images) == 1
    assert folders_in(served.path / "uploads") == []
    assert client.post(f"{location}/retry").status_code == 409
    assert client.post("/v1/jobs/nothing/retry").status_code == 404


def test_files_are_kept_for_a_retry_until_they_are_deleted_or_a_day_is_over(served):
    left_out = ("files", ("x.xyz", b"x"))
    with serving(served) as client:
        retained, deleted = upload(client, FILE, left_out), upload(client, left_out)
        assert [ended(client, job)["can_retry"] for job in (retained, deleted)] == [True, True]
        assert client.delete(deleted).json()["can_retry"] is False
        assert client.post(f"{deleted}/retry").status_code == 409
    with serving(served) as client:
        assert client.post(f"{retained}/retry").status_code == 202
        assert ended(client, retained)["report"]["units_unchanged"] == 1
        assert len(folders_in(served.path / "uploads")) == 1
    later = time.time() + 86_500
    with serving(served, clock=lambda: later) as client:
        ended(client, upload(client, MELON))
        assert folders_in(served.path / "uploads") == []
        assert client.post(f"{retained}/retry").status_code == 404


def test_further_requests_are_refused_when_all_threads_are_busy(fruit_base):
    may_fail = threading.Event()

    def wait(_):
        may_fail.wait(10)
        raise ModelFailed("the model is out of order")

    options = {"json": {"question": "Which country does the Mango come from?"}}
    with (
        KnowledgeBase.open(fruit_base.with_name("kb"), mllm=ScriptedMLLM(wait)) as base,
        serving(base, threads=1, waiting=0) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        first = thread.submit(client.post, "/v1/query", **options)
        while "in_progress 1.0" not in client.get("/metrics").text:
            time.sleep(0.01)
        refused = client.post("/v1/query", **options)
        stream = client.post("/v1/query/stream", **options)
        may_fail.set()
        assert [refused.status_code, stream.status_code] == [429, 429]
        assert refused.headers["retry-after"]
        assert (first.result().status_code, first.result().json()["code"]) == (
            502, "ModelFailed",
        )  # fmt: skip
        assert client.get("/readyz").status_code == 200
        events = client.post("/v1/query/stream", **options).text.strip().split("\n\n")
        assert [event.partition("\n")[0] for event in events] == [
            "event: units", "event: evidence", "event: error",
        ]  # fmt: skip
