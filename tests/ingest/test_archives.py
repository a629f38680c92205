"""Zip files are read like the folder that they contain."""

import zipfile

import pytest
from PIL import Image

from ku_rag import KnowledgeBase
from ku_rag.errors import BadInput


@pytest.fixture
def garden(tmp_path):
    folder = tmp_path / "garden"
    (folder / "Rose").mkdir(parents=True)
    (folder / "pond.md").write_text("# The pond\n\nThe pond is 2 m deep.\n")
    (folder / "Rose" / "text.txt").write_text("The rose is a shrub.")
    Image.new("RGB", (60, 60), "red").save(folder / "Rose" / "rose.png")
    Image.new("RGB", (60, 60), "blue").save(folder / "Iris.png")
    return folder


def zipped(folder, target):
    with zipfile.ZipFile(target, "w") as members:
        for path in sorted(folder.rglob("*")):
            members.write(path, path.relative_to(folder).as_posix())
    return target


def contents(kb):
    units = [kb.show(unit.id) for unit in kb.list()]
    return [(unit.id, unit.name, unit.texts, len(unit.images)) for unit in units]


@pytest.mark.parametrize("images", ["copy", "link"])
def test_an_archive_has_the_units_of_its_folder(tmp_path, garden, images):
    archive = zipped(garden, tmp_path / "garden.zip")
    bases = []
    for number, source in enumerate((garden, archive)):
        with KnowledgeBase.open(tmp_path / f"kb{number}", create=True, images=images) as kb:
            assert kb.ingest(source).quarantined == []
            assert kb.ingest(source).units_unchanged == 3
            bases.append(contents(kb))
    assert bases[0] == bases[1]
    assert [unit[0] for unit in bases[1]] == ["Iris", "Rose", "pond"]
    archive.unlink()
    with KnowledgeBase.open(tmp_path / "kb1") as kb:
        (piece,) = kb.search(text="How deep is the pond?", k=1).chunks
        assert piece.source == f"{archive.as_posix()}/pond.md"
        (image,) = kb.show("Rose").images
        with Image.open(image) as picture:
            assert picture.size == (60, 60)


def test_an_archive_in_a_folder_is_a_folder_below_it(tmp_path, garden):
    source = tmp_path / "all"
    source.mkdir()
    zipped(garden, source / "garden.zip")
    (source / "house.md").write_text("# The house\n\nThe house has a garden.\n")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.sync(source)
        assert [unit.id for unit in kb.list()] == ["garden", "garden/Rose", "house"]
        (garden / "pond.md").write_text("# The pond\n\nThe pond is 3 m deep.\n")
        zipped(garden, source / "garden.zip")
        assert kb.sync(source).units_updated == 1
        (source / "garden.zip").unlink()
        assert kb.sync(source, yes=True).units_deleted == ["garden", "garden/Rose"]


def test_members_stay_in_the_temporary_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as members:
        members.writestr("../../escaped.md", "# Escaped\n\nIt is outside.\n")
        members.writestr("/absolute.md", "# Absolute\n\nIt is outside.\n")
        link = zipfile.ZipInfo("link.md")
        link.external_attr = 0o120777 << 16
        members.writestr(link, "/etc/passwd")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "evil.zip")
        texts = [text for unit in contents(kb) for text in unit[2]]
        expected = ["/etc/passwd", "It is outside.", "It is outside."]
        assert sorted(text.strip() for text in texts) == expected
    assert not list(tmp_path.parent.glob("escaped.md"))


@pytest.mark.parametrize("content", [b"PK\3\4 broken", b"", b"no archive at all"])
def test_what_cannot_be_unpacked_is_one_sentence(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        with pytest.raises(BadInput, match=r"a\.zip is damaged or encrypted"):
            kb.ingest(tmp_path / "a.zip")
        (tmp_path / "folder").mkdir()
        (tmp_path / "a.zip").rename(tmp_path / "folder" / "a.zip")
        (left_out,) = kb.ingest(tmp_path / "folder").quarantined
        assert "damaged or encrypted" in left_out.reason


def test_an_archive_of_too_many_bytes_is_refused(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w") as members:
        for number in range(3):
            members.writestr(f"{number}.txt", "a text")
    data = bytearray(path.read_bytes())
    at = -1
    while (at := data.find(b"PK\1\2", at + 1)) >= 0:  # entries of the directory
        data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(data)
    with (
        KnowledgeBase.open(tmp_path / "kb", create=True) as kb,
        pytest.raises(BadInput, match=r"unpacks to 3 files of 12,884,901,840 bytes: expected"),
    ):
        kb.ingest(path)
