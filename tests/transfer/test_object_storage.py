"""Sources and shards in object storage, with a server of moto that refuses some requests."""

import threading
from itertools import count

import pytest

from ku_rag import BadInput, KnowledgeBase
from ku_rag.scale.encoding_run import encode
from tests.assets.schemas import Hashed
from tests.scale.test_encode import contents, imported, write_sources

moto = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")
SECRET = "a-secret-of-this-test"


@pytest.fixture
def storage(monkeypatch):
    """Serve an empty bucket; every seventh request gets 503, every ninth 500."""
    from werkzeug.serving import make_server

    served, numbers = moto.DomainDispatcherApplication(moto.create_backend_app), count(1)

    def answer(environ, start_response):
        number = next(numbers)
        if number % 7 and number % 9:
            return served(environ, start_response)
        start_response("500 Error" if number % 7 else "503 Slow Down", [])
        return [b"<Error><Code>SlowDown</Code></Error>"]

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    s3fs.S3FileSystem.clear_instance_cache()  # it has the address of an earlier test
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    files.mkdir("bucket")
    yield files
    files.rm("bucket", recursive=True)
    server.shutdown()


def test_sources_and_shards_in_object_storage(storage, tmp_path, caplog):
    storage.put(str(write_sources(tmp_path / "data")), "bucket/data", recursive=True)
    options = {"encoder": Hashed(), "block": 5}
    report = encode(["s3://bucket/data"], "s3://bucket/out", **options)
    local = encode([tmp_path / "data"], tmp_path / "local", **options)
    assert (report.counts, report.reused) == (local.counts, 0)
    left_out = [item.item.replace("s3://bucket", str(tmp_path)) for item in report.left_out]
    assert left_out == [item.item for item in local.left_out]
    storage.rm(next(key for key in storage.find("bucket/out") if key.endswith("units.parquet")))
    again = encode(["s3://bucket/data"], "s3://bucket/out", **options)
    assert (again.shards, again.reused) == (report.shards, report.shards - 1)
    storage.get("bucket/out", str(tmp_path / "out"), recursive=True)
    assert imported(tmp_path / "out", tmp_path / "kb").units_added == local.counts["units"]
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*.json"))
    assert SECRET not in caplog.text + written.decode()
    with pytest.raises(BadInput, match="names a user"):
        encode([f"s3://key:{SECRET}@bucket/data"], tmp_path / "none", encoder=Hashed())


def test_shards_in_object_storage_are_imported(storage, tmp_path, ku):
    data, address = write_sources(tmp_path / "data"), "s3://bucket/out"
    ku("encode", data, "--out", address)
    assert ku("import", address).code == 0
    assert ku("ingest", data, "--kb", "ingested").code == 3  # one picture is broken
    for base in ("kb", "ingested"):
        assert ku("export", f"{base}-exported", "--kb", base).code == 0
    assert contents(tmp_path / "kb-exported") == contents(tmp_path / "ingested-exported")
    missing = ku("import", "s3://bucket/none", "--kb", "other")
    assert (missing.code, "s3://bucket/none is not there" in missing.err) == (1, True)
    assert not (tmp_path / "other").exists()
    with KnowledgeBase.open(tmp_path / "by-python", create=True) as base:
        assert base.import_(address).units_added == len(base.list()) > 0
