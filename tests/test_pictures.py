"""Opening pictures: every kind becomes upright RGB, every broken one gives one sentence."""

import io
import os
import re
import resource
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from ku_rag import BadInput, KnowledgeBase, NotFound, Unit
from ku_rag.picture_paths import locate_picture
from ku_rag.pictures import (
    PixelBudget,
    decode,
    load_picture,
    probe,
    to_rgb,
)
from tests.conftest import picture

RED, BLUE = (255, 0, 0), (0, 0, 255)
FORMATS = ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "PPM"]


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def two_halves(width=64, height=32):
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def png(width, height):
    """A PNG with this size in its header and almost no content."""

    def piece(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1_000))
    return (
        b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", header) + piece(b"IDAT", packed) + piece(b"IEND", b"")
    )


class Eye:
    """An encoder that records the pictures that it encodes."""

    dim, max_tokens, cross_modal, fingerprint = 4, 50, False, "eye:4"

    def __init__(self):
        self.images = []

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return np.tile(np.float32([1, 0, 0, 0]), (len(texts), 1))

    def encode_images(self, images):
        self.images += images
        return np.tile(np.float32([0, 1, 0, 0]), (len(images), 1))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A base of one picture; its encoder is an `Eye`."""
    folder = tmp_path_factory.mktemp("base")
    path, encoder = picture(folder / "a.png", 1), Eye()
    with KnowledgeBase.open(folder / "kb", create=True, encoder=encoder, segmenter="whole") as kb:
        kb.add(Unit("Lamp", images=(path,)))
        yield kb


@pytest.fixture
def load(base):
    """Search for a picture, and return it as the encoder gets it."""

    def run(source):
        base.search(image=source)
        return base.encoder.images.pop()

    return run


@pytest.fixture
def store(base, tmp_path):
    """Add a unit with a picture of this content."""

    def run(data):
        file = tmp_path / "stored.png"
        file.write_bytes(data)
        base.add(Unit("Stored", images=(file,)))

    return run


# ---- readable pictures -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read(kind, load):
    data = encoded(two_halves(), kind)
    picture = load(data)
    assert (picture.mode, picture.size) == ("RGB", (64, 32))
    left, right = np.asarray(picture)[16, 8], np.asarray(picture)[16, 56]
    assert np.abs(left.astype(int) - RED).max() <= 4
    assert np.abs(right.astype(int) - BLUE).max() <= 4


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_the_camera_may_be_turned(kind, load):
    exif = Image.Exif()
    exif[0x0112] = 6  # the left of the picture is the top of the scene
    data = encoded(two_halves(), kind, exif=exif)
    picture = load(data)
    assert picture.size == (32, 64)
    top, bottom = np.asarray(picture)[8, 16], np.asarray(picture)[56, 16]
    assert (top.argmax(), bottom.argmax()) == (0, 2)


def test_of_an_animation_the_first_frame_is_taken(load):
    frames = [Image.new("RGB", (8, 8), color) for color in (RED, BLUE)]
    for kind, options in {"GIF": {}, "PNG": {}, "WEBP": {"lossless": True}}.items():
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert load(data).getpixel((4, 4)) == RED


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_is_scaled_not_clipped(kind, load):
    grey = np.array([[0, 257, 25_700, 65_535]], np.uint16)
    picture = load(encoded(Image.fromarray(grey), kind))
    assert [picture.getpixel((x, 0)) for x in range(4)] == [
        (0, 0, 0),
        (1, 1, 1),
        (100, 100, 100),
        (255, 255, 255),
    ]


def test_other_deep_greys_are_scaled(load):
    unit = Image.fromarray(np.array([[0.0, 0.5, 1.0, np.nan]], np.float32))
    assert list(np.asarray(load(encoded(unit, "TIFF")))[0, :, 0]) == [0, 128, 255, 0]
    deep = Image.fromarray(np.array([[0, 25_700, 65_535, -3]], np.int32))
    assert list(np.asarray(load(encoded(deep, "TIFF")))[0, :, 0]) == [0, 100, 255, 0]


def test_cmyk_palette_and_black_and_white_become_rgb(load):
    cmyk = encoded(two_halves().convert("CMYK"), "TIFF")
    assert load(cmyk).getpixel((0, 0)) == RED
    photo = load(encoded(two_halves().convert("CMYK"), "JPEG"))
    assert np.abs(np.subtract(photo.getpixel((60, 16)), BLUE)).max() <= 4
    palette = Image.new("P", (2, 1), 1)
    palette.putpalette([1, 2, 3, 40, 50, 60])
    assert load(encoded(palette)).getpixel((0, 0)) == (40, 50, 60)
    assert load(encoded(Image.new("1", (2, 1), 1))).getpixel((0, 0)) == (255, 255, 255)


def test_what_is_transparent_becomes_white(load):
    assert load(encoded(Image.new("RGBA", (2, 2), (255, 0, 0, 0)))).getpixel((0, 0)) == (
        255,
        255,
        255,
    )
    assert load(encoded(Image.new("LA", (2, 2), (0, 51)))).getpixel((0, 0)) == (204,) * 3
    palette = Image.new("P", (2, 1), 0)
    palette.putpalette([1, 2, 3, 40, 50, 60])
    for transparency in (0, b"\0\xff"):
        data = encoded(palette, transparency=transparency)
        assert load(data).getpixel((0, 0)) == (255, 255, 255)


def test_large_pictures_are_decoded_smaller_when_asked():
    large = two_halves(4_000, 1_000)
    assert load_picture(encoded(large, "JPEG"), longest=640).size == (1_000, 250)
    assert load_picture(encoded(large, "PNG"), longest=640).size == (667, 167)
    assert load_picture(encoded(large, "JPEG"), longest=3_999).size == (4_000, 1_000)
    assert load_picture(encoded(two_halves(), "PNG"), longest=640).size == (64, 32)
    exif = Image.Exif()
    exif[0x0112] = 8
    assert load_picture(encoded(large, "JPEG", exif=exif), longest=640).size == (250, 1_000)


def test_a_transparent_value_of_16_bit_grey_becomes_white(load):
    grey = np.array([[0, 25_700, 51_400]], np.uint16)
    data = encoded(Image.fromarray(grey), transparency=25_700)
    assert list(np.asarray(load(data))[0, :, 0]) == [0, 255, 200]


def test_pictures_of_several_bands_are_converted_whole(load):
    rows = np.linspace(0, 1, 1_500, dtype=np.float32)
    values = np.repeat(rows[:, None] * 60_000, 1_000, axis=1)
    expected = np.rint(values * np.float32(255 / 65_535)).astype(np.uint8)
    picture = load(encoded(Image.fromarray(values), "TIFF"))
    np.testing.assert_array_equal(np.asarray(picture)[..., 0], expected)
    layered = two_halves(1_500, 1_500).convert("RGBA")
    layered.putalpha(
        Image.fromarray(np.repeat([[0], [255]], 750, axis=0).astype(np.uint8)).resize(
            (1_500, 1_500)
        )
    )
    expected = np.asarray(two_halves(1_500, 1_500)).copy()
    expected[:750] = 255
    np.testing.assert_array_equal(np.asarray(load(encoded(layered))), expected)


def test_a_picture_that_is_rgb_is_not_copied():
    picture = two_halves()
    assert to_rgb(picture) is picture


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_large_pictures_are_fitted(kind, load):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(two_halves(6_400, 3_200), kind, exif=exif)
    picture = load(data)
    assert picture.size == (800, 1_600)
    assert [np.argmax(picture.getpixel((400, y))) for y in (100, 1_500)] == [0, 2]


# ---- limits of concurrency ---------------------------------------------------------------------


def test_pictures_wait_in_order_of_arrival():
    budget, order = PixelBudget(10), []

    def run(name, pixels):
        with budget.reserve(pixels):
            order.append((name, budget.used))

    sizes = (("large", 50), ("small", 3), ("last", 8))
    threads = [threading.Thread(target=run, args=size) for size in sizes]
    with budget.reserve(6):
        for number, thread in enumerate(threads, 1):
            thread.start()
            while len(budget.waiting) < number:
                time.sleep(0.001)
        # The small picture would fit. It waits, so that small ones cannot keep out a large one.
        assert (order, budget.used) == ([], 6)
    for thread in threads:
        thread.join()
    assert [name for name, _ in order] == ["large", "small", "last"]
    assert order[0] == ("large", 10)
    assert (budget.used, len(budget.waiting)) == (0, 0)


def test_pictures_within_the_budget_are_decoded_at_the_same_time():
    data, both = encoded(Image.new("1", (4_000, 4_000))), threading.Barrier(2, timeout=60)

    def run():
        decode(data, lambda picture, size: both.wait())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both.broken


def test_a_failure_frees_the_budget():
    budget = PixelBudget(10)
    with pytest.raises(ZeroDivisionError), budget.reserve(10):
        raise ZeroDivisionError
    with budget.reserve(10):
        assert budget.used == 10


@pytest.mark.parametrize("mode", ["1", "I;16", "RGBA"])
def test_threads_together_need_the_memory_of_the_largest_picture(mode, rounds):
    # Four at a time would need more than two may use; of one bit a pixel, hardly more.
    count = 8 if mode == "1" else rounds(4, 8)
    code = (
        "import io, re, threading\nfrom pathlib import Path\nfrom PIL import Image\n"
        "from ku_rag.pictures import fit_picture\nfile = io.BytesIO()\n"
        f"Image.new({mode!r}, (6_000, 5_000)).save(file, 'PNG', compress_level=1)\n"
        "data = file.getvalue()\n"
        "def peak():\n    status = Path('/proc/self/status').read_text()\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
        "Path('/proc/self/clear_refs').write_text('5')\nbefore = peak()\n"
        f"threads = [threading.Thread(target=fit_picture, args=(data,)) for _ in range({count})]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\n"
        "print(peak() - before)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    # Two pictures of 30 megapixels at a time, each decoded and as RGB, which takes 4 bytes a pixel.
    assert int(process.stdout) < 2 * 30_000 * 8 + 150_000  # KiB


# ---- refused pictures --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_truncated_pictures_are_refused(kind, load):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    data = encoded(noise, kind)
    with pytest.raises(BadInput, match=r"broken .*save or copy it again$"):
        load(data[: len(data) // 2])
    with pytest.raises(BadInput, match=r"save it again|copy it again"):
        load(data[:20])


@pytest.mark.parametrize("data", [b"hello", b"<svg/>", b"%PDF-1.4", bytes(100), b"\xff\xd8\xff"])
def test_other_files_are_no_pictures(data, store, load):
    for action in (load, store):
        with pytest.raises(BadInput, match=r"not a readable picture .* expected one of JPEG, PNG"):
            action(data)


def test_empty_files_are_no_pictures(store, load):
    for action in (load, store):
        with pytest.raises(BadInput, match=re.escape("the picture is empty (0 bytes)")):
            action(b"")


@pytest.mark.parametrize("side", [60_000, 8_001, 2**31 - 1])
def test_sizes_are_bounded_before_decoding(side, store, load):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for action in (load, store):
        with pytest.raises(BadInput, match=r"at most 64,000,000 (pixels )?are decoded"):
            action(png(side, side))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_a_picture_of_the_largest_size_is_only_broken(load):
    with pytest.raises(BadInput, match="the PNG picture is broken"):
        load(png(8_000, 8_000))


@pytest.mark.parametrize("lossless", [False, True])
def test_webp_sizes_are_bounded_before_decoding(lossless):
    data = bytearray(encoded(two_halves(), "WEBP", lossless=lossless))
    if lossless:
        data[21:25] = b"\xff\xff\xff\x0f"
    else:
        data[26:30] = b"\xff\x3f\xff\x3f"
    with pytest.raises(BadInput, match="at most 64,000,000 pixels"):
        probe(bytes(data))
    exif = Image.Exif()
    exif[0x0112] = 1
    data = bytearray(encoded(two_halves(), "WEBP", exif=exif))
    assert data[12:16] == b"VP8X"
    data[24:30] = b"\xff\x3f\0\xff\x3f\0"
    with pytest.raises(BadInput, match="at most 64,000,000 pixels"):
        probe(bytes(data))


def test_want_of_memory_is_not_a_broken_picture():
    code = (
        "import resource\n"
        "from ku_rag.pictures import load_picture\n"
        "import io\nfrom PIL import Image\nfile = io.BytesIO()\n"
        "Image.new('1', (7_000, 7_000)).save(file, 'PNG')\ndata = file.getvalue()\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000,) * 2)\n"
        "try:\n    load_picture(data)\nexcept MemoryError:\n    print('MemoryError')\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "MemoryError\n"


def test_broken_exif_data_does_not_hide_the_picture(load):
    data = encoded(two_halves(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\xff" + bytes(20))
    assert load(data).size == (64, 32)


def test_warnings_do_not_leak(load):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(BadInput, match="10,000 × 10,000 pixels: at most 64,000,000 are"):
            load(png(10_000, 10_000))
        with pytest.raises(BadInput, match="not a readable picture"):
            load(encoded(two_halves(), "TIFF")[:20])
    assert caught == []


# ---- files -------------------------------------------------------------------------------------


def test_files_are_loaded_or_named_in_the_message(tmp_path, load):
    file = tmp_path / "a.png"
    file.write_bytes(encoded(two_halves()))
    assert load(file).size == (64, 32)
    with pytest.raises(NotFound, match=r"b\.png is not there"):
        load(tmp_path / "b.png")
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path)
    file.write_bytes(b"")
    with pytest.raises(BadInput, match=r"a\.png: the picture is empty"):
        load(file)


def test_pictures_lie_in_the_folder_of_their_record(tmp_path):
    folder = (tmp_path / "records").resolve()
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.png").touch()
    (tmp_path / "outside.png").touch()
    os.symlink(tmp_path / "outside.png", folder / "link.png")
    os.symlink(folder / "sub" / "a.png", folder / "inner.png")
    inside = folder / "sub" / "a.png"
    assert locate_picture(folder, "sub/a.png") == inside
    assert locate_picture(folder, "sub/../sub/a.png") == inside
    assert locate_picture(folder, "inner.png") == inside
    refused = {
        "../outside.png": "leads out",
        "../../etc/passwd": "leads out",
        "link.png": "leads out",
        "/etc/passwd": "is absolute",
        str(inside): "is absolute",
        "C:\\pictures\\a.png": "is absolute",
        "\\\\server\\a.png": "is absolute",
        "missing.png": "is not there",
        "sub": "is not there",
        "": "is not there",
        "https://example.org/a.png": "is an address",
        "data:image/png;base64,AAAA": "is an address",
        "a\0b.png": "is not the path",
        "a" * 5_000: "is not the path|is not there",
    }
    for path, reason in refused.items():
        with pytest.raises(BadInput, match=reason):
            locate_picture(folder, path)
