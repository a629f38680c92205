from ku_rag import KnowledgeBase, Unit


def test_the_size_of_a_base_is_that_of_its_files_without_uploads(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add(Unit("Pear", texts=["A pear is green."]))
        before = base.stats().bytes
        for name, size in {"images/ab/pear.png": 7, "uploads/a/b.jsonl": 1000}.items():
            file = tmp_path / "kb" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * size)
        (tmp_path / "kb" / "broken").symlink_to("nowhere")
        assert base.stats().bytes == before + 7
