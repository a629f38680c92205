"""Increments update copies from commit to commit; an increment that does not fit is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import orjson
import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.cli import main
from ku_rag.errors import BadInput, Mismatch, NotFound, Refused
from ku_rag.store.content_rows import content_hash
from tests.assets.schemas import Hashed, fill
from tests.conftest import picture
from tests.test_stateful import Machine

QUESTION = "When was the Green Lighthouse built?"


def opened(folder: Path, **options) -> KnowledgeBase:
    return KnowledgeBase.open(folder, encoder=Hashed(), **options)


@pytest.fixture
def base(tmp_path):
    """A base with a snapshot "copy" of it."""
    (tmp_path / "data").mkdir()
    with opened(tmp_path / "kb", create=True) as kb:
        fill(kb, tmp_path / "data")
        kb.snapshot(tmp_path / "copy")
        yield kb


def change(kb: KnowledgeBase, number: int) -> None:
    """Add a unit with a picture and a relation, and delete the unit of the previous change."""
    file = picture(kb.path.parent / f"{number}.png", 50 + number)
    relation = Relation("stands near", "Green Lighthouse")
    text = f"Pier {number} was built in {1900 + number}."
    kb.add(
        Unit(f"Pier {number}", id=f"p{number}", texts=[text], images=[file], relations=[relation])
    )
    if number:
        kb.delete(f"p{number - 1}")


def rows(folder: Path) -> dict[str, list[tuple]]:
    """Every row of every table, including those of the keyword index and of SQLite."""
    with KnowledgeBase.open(folder, read_only=True, as_made=True) as kb:
        connection = kb._database.connection
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        ).fetchall()
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr)
            for (name,) in names
        }


def files(folder: Path) -> dict[str, bytes]:
    """The pictures of a base."""
    return {path.name: path.read_bytes() for path in (folder / "images").glob("*/*")}


def assert_equal(kb: KnowledgeBase, copy: Path, whole: Path) -> None:
    """Assert that a copy equals a whole snapshot that is taken now."""
    kb.snapshot(whole)
    assert rows(copy) == rows(whole)
    assert files(whole).items() <= files(copy).items()


def test_increments_end_at_a_whole_snapshot(base, tmp_path):
    for number in range(4):
        change(base, number)
        if number == 2:
            base.compact()
        report = base.snapshot(tmp_path / "inc", since=tmp_path / "copy")
        assert (report.pictures, report.left_out) == (1, [])
        assert report.since < report.commit
        with opened(tmp_path / "copy") as copy:
            applied = copy.apply_increments(tmp_path / "inc").to_dict()
            assert applied == {
                "found": 1,
                "increments": 1,
                "pictures": 1,
                "commit": report.commit,
                "erased": True,
            }
            assert copy.verify().problems == ()
            assert copy.query(None, QUESTION).answer == base.query(None, QUESTION).answer
            assert copy.search(text="pier built", k=5) == base.search(text="pier built", k=5)
            assert copy.graph.paths(f"Pier {number}", "Heron Rock") == base.graph.paths(
                f"Pier {number}", "Heron Rock"
            )
        assert_equal(base, tmp_path / "copy", tmp_path / f"whole{number}")
        shutil.rmtree(tmp_path / "inc")


def test_nothing_is_made_where_nothing_has_changed(base, tmp_path):
    report = base.snapshot(tmp_path / "inc", since=tmp_path / "copy")
    assert report.since == report.commit
    assert not (tmp_path / "inc").exists()


class Shipping(Machine):
    """Random changes of a base, which are shipped at times."""

    def __init__(self):
        super().__init__()
        self.kb.snapshot(self.root / "copy")
        self.count = 0

    @rule()
    def ship(self):
        self.count += 1
        copy, increments = self.root / "copy", self.root / "increments"
        self.kb.snapshot(increments / str(self.count), since=copy)
        if increments.exists() and (increments / str(self.count)).exists():
            with KnowledgeBase.open(copy) as following:
                assert following.apply_increments(increments).increments == 1
                assert following.verify().problems == ()
        assert_equal(self.kb, copy, self.root / f"whole{self.count}")

    def teardown(self):
        self.ship()
        super().teardown()


Shipping.TestCase.settings = settings(max_examples=settings.default.max_examples // 2)
TestShipping = Shipping.TestCase


def test_a_copy_catches_up_with_a_folder_of_increments(base, tmp_path):
    shutil.copytree(tmp_path / "copy", tmp_path / "late")
    for number in range(3):
        change(base, number)
        base.snapshot(tmp_path / "all" / str(9 - number), since=tmp_path / "copy")
        with opened(tmp_path / "copy") as copy:
            copy.apply_increments(tmp_path / "all")
            assert copy.apply_increments(tmp_path / "all").increments == 0
    with opened(tmp_path / "late") as late:
        assert late.apply_increments(tmp_path / "all").increments == 3
    assert rows(tmp_path / "late") == rows(tmp_path / "copy")


def test_deleted_content_leaves_the_rows_and_after_compaction_the_files(base, tmp_path):
    file = picture(tmp_path / "face.png", 77)
    digest = content_hash(file.read_bytes())
    base.add(Unit("Secret", id="secret", texts=["The password is swordfish."], images=[file]))
    base.snapshot(tmp_path / "inc1", since=tmp_path / "copy")
    base.delete("secret")
    with opened(tmp_path / "copy") as copy:
        copy.apply_increments(tmp_path / "inc1")
        assert copy.show("secret").texts == ("The password is swordfish.",)
    base.snapshot(tmp_path / "inc2", since=tmp_path / "copy")
    base.compact()
    with opened(tmp_path / "copy") as copy:
        copy.apply_increments(tmp_path / "inc2")
        assert "swordfish" not in repr(rows(tmp_path / "copy")["chunks"])
    base.snapshot(tmp_path / "inc3", since=tmp_path / "copy")
    with opened(tmp_path / "copy") as copy:
        assert copy.apply_increments(tmp_path / "inc3").erased
        paths = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
        assert b"swordfish" not in b"".join(path.read_bytes() for path in paths)
        assert digest not in {path.stem for path in paths}
    for increment in ("inc2", "inc3"):
        assert b"swordfish" not in (tmp_path / increment / "rows.patchset").read_bytes()


def test_a_call_that_was_stopped_before_it_erased_is_completed_by_the_next(base, tmp_path):
    base.add(Unit("Secret", id="secret", texts=["The password is swordfish."]))
    base.snapshot(tmp_path / "late")
    base.delete("secret")
    base.snapshot(tmp_path / "inc", since=tmp_path / "late")
    database, mark = tmp_path / "late" / "ku.sqlite", tmp_path / "late" / "ku.erasing"
    with opened(tmp_path / "late") as copy:
        copy.apply_increments(tmp_path / "inc")
        assert not mark.exists()
    assert b"swordfish" in database.read_bytes()
    mark.touch()  # as after the commit of a compaction
    with opened(tmp_path / "late") as copy:
        assert copy.apply_increments(tmp_path / "inc").increments == 0
    assert b"swordfish" not in database.read_bytes()
    assert not mark.exists()


@pytest.mark.slow  # waits 10 seconds for a reader
def test_what_a_reader_needs_is_erased_by_the_next_call(base, tmp_path):
    change(base, 0)
    base.snapshot(tmp_path / "incs" / "0", since=tmp_path / "copy")
    with opened(tmp_path / "copy") as copy:
        copy.apply_increments(tmp_path / "incs")
    images = copy.path / "images"
    (gone,) = {path.name for path in images.glob("*/*")} & {
        Path(image).name for image in base.show("p0").images
    }
    base.delete("p0")
    base.compact()
    base.snapshot(tmp_path / "incs" / "1", since=tmp_path / "copy")
    with opened(tmp_path / "copy") as copy:
        with opened(tmp_path / "copy", read_only=True) as reader, reader._session.read():
            assert reader.show("p0").texts == ("Pier 0 was built in 1900.",)
            assert not copy.apply_increments(tmp_path / "incs").erased
            assert (images / gone[:2] / gone).exists()
            assert reader.show("p0").texts == ("Pier 0 was built in 1900.",)
        assert copy.apply_increments(tmp_path / "incs").to_dict() == {
            "found": 2,
            "increments": 0,
            "pictures": 0,
            "commit": base._database.meta("commits"),
            "erased": True,
        }
        assert not (images / gone[:2] / gone).exists()
        assert b"Pier 0" not in b"".join(path.read_bytes() for path in copy.path.glob("ku.sqlite*"))


@pytest.fixture
def chain(base, tmp_path):
    """A base, two increments that follow each other, and copies: one at each of three commits."""
    shutil.copytree(tmp_path / "copy", tmp_path / "at0")
    for number in range(2):
        change(base, number)
        base.snapshot(tmp_path / f"inc{number}", since=tmp_path / "copy")
        with opened(tmp_path / "copy") as copy:
            copy.apply_increments(tmp_path / f"inc{number}")
        shutil.copytree(tmp_path / "copy", tmp_path / f"at{number + 1}")
    return base


def own_changes(folder: Path, number: int) -> None:
    """Give a copy a commit of its own, which has the number of one of the base."""
    with opened(folder) as copy:
        while (commits := copy._database.meta("commits")) < number:
            copy.add(Unit("Own", texts=[f"Own text {commits}."]))


@pytest.mark.parametrize(
    ("at", "increment"),
    [("at0", "inc1"), ("at2", "inc0"), ("own", "inc1"), ("other", "inc0"), ("at1", "inc0+")],
)
def test_other_states_are_refused_and_stay(chain, tmp_path, at, increment):
    if at == "own":
        shutil.copytree(tmp_path / "at0", tmp_path / "own")
        own_changes(tmp_path / "own", json.loads(manifest(tmp_path / "inc1"))["since"]["commits"])
    if at == "other":
        with opened(tmp_path / "other", create=True) as kb:
            kb.add(Unit("Else", texts=["Another base."]))
    if increment == "inc0+":  # a folder of increments in which one is missing
        change(chain, 2)
        with opened(tmp_path / "copy") as copy:
            chain.snapshot(tmp_path / "inc0+" / "2", since=tmp_path / "copy")
        shutil.copytree(tmp_path / "inc0", tmp_path / "inc0+" / "0")
    before = rows(tmp_path / at), files(tmp_path / at)
    with opened(tmp_path / at) as copy, pytest.raises(Mismatch, match=r"is at commit \d+ \("):
        copy.apply_increments(tmp_path / increment)
    assert (rows(tmp_path / at), files(tmp_path / at)) == before


def manifest(increment: Path) -> bytes:
    return orjson.dumps(orjson.loads((increment / "manifest.json").read_bytes())["increment"])


def cut(increment: Path) -> None:
    file = increment / "rows.patchset"
    file.write_bytes(file.read_bytes()[:-1])


def flip(increment: Path) -> None:
    file = increment / "rows.patchset"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def renumber(increment: Path) -> None:
    file = increment / "manifest.json"
    content = orjson.loads(file.read_bytes())
    content["increment"]["sequences"][0][1] += 1
    file.write_bytes(orjson.dumps(content))


def lose_picture(increment: Path) -> None:
    next(increment.glob("images/*/*")).unlink()


def change_picture(increment: Path) -> None:
    next(increment.glob("images/*/*")).write_bytes(b"something else")


def add_picture(increment: Path) -> None:
    picture(increment / "images" / "ab" / "stranger.png", 99)


def lose_rows(increment: Path) -> None:
    (increment / "rows.patchset").unlink()


def with_manifest(text: bytes):
    def write(increment: Path) -> None:
        (increment / "manifest.json").write_bytes(text)

    return write


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip,
        renumber,
        lose_picture,
        change_picture,
        add_picture,
        lose_rows,
        *map(with_manifest, (b"", b"[]", b"{", b"\xff", b'{"increment": 1, "sha256": 2}', b"null")),
    ],
)
def test_a_damaged_increment_is_refused_and_changes_nothing(chain, tmp_path, damage):
    damage(tmp_path / "inc0")
    before = rows(tmp_path / "at0")
    with opened(tmp_path / "at0") as copy:
        with pytest.raises(BadInput, match="incomplete or damaged: it was not applied"):
            copy.apply_increments(tmp_path / "inc0")
        assert copy.verify().problems == ()
    assert rows(tmp_path / "at0") == before


def test_an_increment_of_a_later_version_is_refused(chain, tmp_path):
    content = orjson.loads(manifest(tmp_path / "inc0")) | {"format": 2}
    text = orjson.dumps({"sha256": content_hash(orjson.dumps(content)), "increment": content})
    (tmp_path / "inc0" / "manifest.json").write_bytes(text)
    with opened(tmp_path / "at0") as copy, pytest.raises(Mismatch, match="later version"):
        copy.apply_increments(tmp_path / "inc0")


def test_rows_that_another_program_changed_are_not_overwritten(chain, tmp_path):
    with opened(tmp_path / "at1") as copy:
        copy._database.connection.execute("DELETE FROM names")
    before = rows(tmp_path / "at1")
    with opened(tmp_path / "at1") as copy, pytest.raises(BadInput, match="not applied"):
        copy.apply_increments(tmp_path / "inc1")
    assert rows(tmp_path / "at1") == before


def test_an_increment_that_is_being_written_is_ignored(chain, tmp_path):
    shutil.copytree(tmp_path / "inc0", tmp_path / "all" / ".0.0123456789ab.partial")
    with opened(tmp_path / "at0") as copy:
        assert copy.apply_increments(tmp_path / "all").found == 0


def test_a_copy_that_follows_is_not_compacted_before_it_has_changes_of_its_own(chain, tmp_path):
    with opened(tmp_path / "at1") as copy:
        with pytest.raises(Refused, match="compact the base and apply"):
            copy.compact()
        assert copy.apply_increments(tmp_path / "inc1").increments == 1
        with pytest.raises(Refused, match="unchanged copy"):
            copy.compact()
        copy.add(Unit("Own", texts=["Own text."]))
        assert copy.compact().bytes_after > 0


def test_a_copy_whose_update_was_stopped_before_its_commit_is_not_compacted(chain, tmp_path):
    shutil.copy(tmp_path / "at1" / "ku.copy", tmp_path / "at0" / "ku.copy")
    with opened(tmp_path / "at0") as copy:
        with pytest.raises(Refused, match="unchanged copy"):
            copy.compact()
        assert copy.apply_increments(tmp_path / "inc0").increments == 1


def test_a_damaged_mark_of_a_copy_hinders_nothing(base, tmp_path):
    (tmp_path / "copy" / "ku.copy").write_bytes(b"\xf2\x00")
    with opened(tmp_path / "copy") as copy:
        assert copy.compact().bytes_after > 0


def test_other_files_among_the_pictures_stay_and_deleted_pictures_go(chain, tmp_path):
    images = tmp_path / "at1" / "images"
    (gone,) = {path.name for path in images.glob("*/*")} - {
        path.name for path in (tmp_path / "at2" / "images").glob("*/*")
    }
    (images / "notes.txt").touch()
    (images / "00" / "folder").mkdir(parents=True)
    with opened(tmp_path / "at1") as copy:
        assert copy.apply_increments(tmp_path / "inc1").erased
    assert not list(images.glob(f"*/{gone}"))
    assert (images / "notes.txt").exists()
    assert (images / "00" / "folder").exists()


def test_increments_of_another_base_beside_are_ignored(chain, tmp_path):
    shutil.copytree(tmp_path / "inc0", tmp_path / "both" / "0")
    with opened(tmp_path / "other", create=True) as second:
        second.add(Unit("Mill", id="m"))
        second.snapshot(tmp_path / "whole")
        for number in range(9):
            change(second, number)
        second.snapshot(tmp_path / "both" / "1", since=tmp_path / "whole")
    with opened(tmp_path / "at0") as copy:
        assert copy.apply_increments(tmp_path / "both").increments == 1


def test_folders_that_cannot_be_used_are_named(chain, tmp_path):
    (tmp_path / "empty").mkdir()
    with opened(tmp_path / "at0") as copy, pytest.raises(NotFound, match="is not a folder"):
        copy.apply_increments(tmp_path / "missing")
    for wrong in ("empty", "missing"):
        with pytest.raises(NotFound, match="no knowledge base"):
            chain.snapshot(tmp_path / "new", since=tmp_path / wrong)
    change(chain, 2)
    with pytest.raises(Refused, match="holds other files"):
        chain.snapshot(tmp_path / "inc0", since=tmp_path / "copy")
    own_changes(tmp_path / "at2", chain._database.meta("commits"))
    with opened(tmp_path / "other", create=True):
        for since in ("other", "at2"):
            with pytest.raises(Mismatch, match="expected an earlier commit of the same base"):
                chain.snapshot(tmp_path / "new", since=tmp_path / since)
    assert not (tmp_path / "new").exists()


def test_a_missing_picture_is_named_and_the_rest_is_shipped(base, tmp_path):
    change(base, 0)
    Path(base.show("p0").images[0]).unlink()
    (item,) = base.snapshot(tmp_path / "inc", since=tmp_path / "copy").left_out
    assert item.reason.endswith("No such file or directory")
    with opened(tmp_path / "copy") as copy:
        assert copy.apply_increments(tmp_path / "inc").pictures == 0
        assert copy.show("p0").texts == base.show("p0").texts


def test_the_command_writes_and_applies(tmp_path, monkeypatch, capsys):
    def ku(*arguments: str, code: int = 0) -> dict:
        monkeypatch.setattr("sys.argv", ["ku", *arguments, "--json"])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code
        return json.loads(capsys.readouterr().out or "{}")

    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Alpha", id="a", texts=["Alpha leads."]))
        first = ku("snapshot", "copy")
        kb.add(Unit("Beta", id="b", texts=["Beta follows."]))
    increment = ku("snapshot", "inc/1", "--since", "copy")
    assert (increment["since"], increment["commit"]) == (first["commit"], first["commit"] + 1)
    applied = ku("snapshot", "inc", "--apply", "--kb", "copy")
    assert applied == {
        "found": 1,
        "increments": 1,
        "pictures": 0,
        "commit": increment["commit"],
        "erased": True,
    }
    (tmp_path / "empty").mkdir()
    assert ku("snapshot", "empty", "--apply", "--kb", "copy") == applied | {
        "found": 0,
        "increments": 0,
    }
    ku("compact", "--kb", "copy", code=1)
    assert ku("snapshot", "inc", "--apply", "--kb", "copy")["increments"] == 0
    assert ku("snapshot", "inc/2", "--since", "copy")["since"] == increment["commit"]
    assert not (tmp_path / "inc" / "2").exists()
    ku("snapshot", "inc", "--apply", "--since", "copy", code=2)
