import json

from PIL import Image

from ku_rag.demo.dataset import build
from tools.demo_data.facts import countries


def test_build_writes_a_record_and_a_picture_for_each_country(tmp_path):
    folder = build(tmp_path / "data")
    lines = (folder / "countries.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [r["id"] for r in records] == list(countries())
    for record in records:
        (name,) = record["images"]
        with Image.open(folder / name) as picture:
            assert picture.width == 320
    before = (folder / "countries.jsonl").read_bytes()
    assert (build(tmp_path / "data") / "countries.jsonl").read_bytes() == before
