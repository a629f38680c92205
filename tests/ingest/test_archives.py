"""Zip files are read like the folder in them."""

import io
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
        with pytest.raises(BadInput, match=r"a\.zip cannot be unpacked to .* damaged or"):
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


def archive(**members):
    """The content of a zip file."""
    with zipfile.ZipFile(data := io.BytesIO(), "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return data.getvalue()


def nested(depth):
    data = archive()
    for number in range(depth):
        data = archive(**{"in.zip": data, f"t{number}.md": f"# T\n\nLevel {number}."})
    return data


def test_pictures_of_archives_in_archives_are_read(tmp_path, garden):
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as members:
        members.write(zipped(garden, tmp_path / "garden.zip"), "garden.zip")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        assert kb.ingest(tmp_path / "outer.zip").quarantined == []
        assert [unit[0] for unit in contents(kb)] == ["garden", "garden/Rose"]
        assert [unit[3] for unit in contents(kb)] == [1, 1]


def test_a_damaged_archive_neither_ends_a_sync_nor_deletes_its_units(tmp_path, garden):
    source = tmp_path / "all"
    source.mkdir()
    whole = zipped(garden, source / "garden.zip").read_bytes()
    (source / "house.md").write_text("# The house\n\nThe house has a garden.\n")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.sync(source)
        before = contents(kb)
        for damaged in (whole[: len(whole) // 2], whole.replace(b"2 m deep", b"3 m deep")):
            (source / "garden.zip").write_bytes(damaged)
            report = kb.sync(source, yes=True)
            assert (report.units_unchanged, report.units_deleted) == (1, [])
            (left_out,) = report.quarantined
            assert left_out.item == str(source / "garden.zip")
            assert contents(kb) == before


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_any_damage_is_one_sentence(tmp_path, compression):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", compression) as members:
        members.writestr("\u00e9.md", "# Pond\n\nThe pond is 2 m deep.\n" * 20)
    whole = path.read_bytes()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for at in (18, 31, 50, 60, len(whole) - 60, len(whole) - 40):
            path.write_bytes(whole[:at] + b"\xff\xfe" + whole[at + 2 :])
            try:
                kb.ingest(path)
            except BadInput as error:
                assert "a.zip cannot be unpacked to" in str(error)  # noqa: PT017
        path.write_bytes(whole.replace("\u00e9".encode(), b"\xff\xff"))
        with pytest.raises(BadInput, match=r"a\.zip cannot be unpacked to .* codec can't decode"):
            kb.ingest(path)


def test_archives_in_archives_have_limits(tmp_path):
    (tmp_path / "deep.zip").write_bytes(nested(34))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        report = kb.ingest(tmp_path / "deep.zip")
        assert report.units_added == 32
        (left_out,) = report.quarantined
        assert left_out.reason == "in.zip is in 32 archives: unpack it into a folder"
        assert left_out.item == str(tmp_path / "deep.zip") + "/in.zip" * 32


def test_archives_in_an_archive_share_its_limit_of_files(tmp_path):
    inner = archive(**{f"{n}/": b"" for n in range(60_000)})
    (tmp_path / "many.zip").write_bytes(archive(**{"a.zip": inner, "b.zip": inner}))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        (left_out,) = kb.ingest(tmp_path / "many.zip").quarantined
        assert left_out.reason.startswith("b.zip unpacks to 120,002 files of ")
