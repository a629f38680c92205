from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture


def test_the_size_of_a_base_is_that_of_its_files_without_uploads(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add(
            Unit("Pear", texts=["A pear is green."], images=[picture(tmp_path / "pear.png", 1)])
        )
        files = [path for path in (tmp_path / "kb").rglob("*") if path.is_file()]
        (tmp_path / "kb" / "uploads").mkdir()
        (tmp_path / "kb" / "uploads" / "b.jsonl").write_bytes(b"x" * 1000)
        (tmp_path / "kb" / "broken").symlink_to("nowhere")
        assert any(path.suffix == ".png" for path in files)
        assert base.stats().bytes == sum(path.stat().st_size for path in files)
