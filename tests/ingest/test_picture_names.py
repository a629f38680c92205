"""Pictures with the names of records belong to their units."""

import pytest
from PIL import Image

from ku_rag.ingest.readers.folder import read

PRODUCTS = 'id,name,aliases,price\nP-001,Blue Lamp,Azur,49\nP-002,"Café-Lampe, No. 7",,80\n'


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "shop" / "products").mkdir(parents=True)
    (tmp_path / "shop" / "products" / "products.csv").write_text(PRODUCTS, encoding="utf-8")
    return (tmp_path / "shop").resolve()


@pytest.fixture
def pictures_of(shop):
    """Write pictures, read the folder, and return the paths of pictures of each unit."""

    def read_all(*paths):
        for number, path in enumerate(paths):
            (shop / path).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2), (number, 0, 0)).save(shop / path)
        units = {}
        for record in read(shop):
            images = [image for source in record.sources for image in source.images]
            paths = units.setdefault(record.unit.id, [])
            paths += [image.relative_to(shop).as_posix() for image in images]
        return units

    return read_all


def test_pictures_that_bear_an_id_a_name_or_an_alias_belong_to_the_record(pictures_of):
    pictures = ["photos/P-001.png", "photos/azur.png", "photos/blue_lamp (2).png"]
    others = ["photos/cafe-lampe-no-7-front.png"]
    assert pictures_of(*pictures, *others) == {"P-001": pictures, "P-002": others}


def test_a_folder_that_bears_a_name_holds_pictures_of_the_record(pictures_of):
    pictures = ["photos/blue-lamp/1.png", "photos/blue-lamp/x.png"]
    assert pictures_of(*pictures) == {"P-001": pictures, "P-002": []}


def test_other_pictures_beside_those_of_two_records_are_units(pictures_of):
    units = pictures_of("photos/P-001.png", "photos/P-002.png", "photos/stand.png")
    assert units["photos/stand"] == ["photos/stand.png"]
    assert units["P-001"] == ["photos/P-001.png"]


def test_other_pictures_beside_two_of_one_record_are_units(pictures_of):
    units = pictures_of("photos/azur 1.png", "photos/azur 2.png", "photos/stand.png")
    assert units["P-001"] == ["photos/azur 1.png", "photos/azur 2.png"]
    assert units["photos/stand"] == ["photos/stand.png"]


def test_one_name_among_other_pictures_divides_no_folder(pictures_of):
    pictures = ["Kitchen/azur.png", "Kitchen/table.png"]
    assert pictures_of(*pictures) == {"P-001": [], "P-002": [], "Kitchen": pictures}


def test_a_name_of_two_records_is_the_name_of_none(shop, pictures_of):
    (shop / "more.csv").write_text("id,name\nQ-1,Azur\nQ-2,Stool\n", encoding="utf-8")
    units = pictures_of("photos/azur.png", "photos/P-002.png", "photos/stool.png")
    assert units["photos/azur"] == ["photos/azur.png"]
    assert (units["Q-1"], units["Q-2"]) == ([], ["photos/stool.png"])


def test_a_picture_beside_the_records_belongs_to_one(shop, pictures_of):
    (shop / "products" / "products.csv").rename(shop / "products.csv")
    units = pictures_of("p-001.png", "blue lamp 2.png", "stand.png")
    assert units == {"P-001": ["blue lamp 2.png", "p-001.png"], "P-002": [], "stand": ["stand.png"]}


def test_a_picture_in_the_ingested_folder_belongs_to_a_record_below_it(pictures_of):
    units = pictures_of("P-001.png", "stand.png")
    assert units == {"P-001": ["P-001.png"], "P-002": [], "stand": ["stand.png"]}


def test_a_picture_that_a_record_names_by_its_path_belongs_to_it_alone(shop, pictures_of):
    (shop / "lamps.csv").write_text("id,name,image\nL-1,Lamp,photos/azur.png\n", encoding="utf-8")
    units = pictures_of("photos/azur.png", "photos/P-001.png")
    assert (units["L-1"], units["P-001"]) == (["photos/azur.png"], ["photos/P-001.png"])


def test_the_record_keeps_its_name_and_fields(shop, kb):
    Image.new("RGB", (20, 20)).save(shop / "products" / "P-001.png")
    assert kb.ingest(shop).quarantined == []
    unit = kb.show("P-001")
    assert (unit.name, unit.aliases, unit.metadata) == ("Blue Lamp", ("Azur",), {"price": "49"})
    assert len(unit.images) == 1
    assert kb.ingest(shop).units_updated == 0


def test_a_record_without_texts_outlives_its_picture(shop, kb):
    photo = shop / "photos" / "P-001.png"
    photo.parent.mkdir()
    Image.new("RGB", (20, 20)).save(photo)
    kb.ingest(shop)
    photo.unlink()
    kb.sync(shop)
    assert (kb.show("P-001").metadata, kb.show("P-001").images) == ({"price": "49"}, ())
    kb.delete("P-002")
    assert [unit.id for unit in kb.list()] == ["P-001"]


def test_an_update_alone_keeps_no_unit(shop, kb):
    text = shop / "text.txt"
    text.write_text("It is red.", encoding="utf-8")
    kb.ingest(shop)
    kb.update("text", metadata={"colour": "red"})
    text.unlink()
    kb.sync(shop)
    assert {unit.id for unit in kb.list()} == {"P-001", "P-002"}
