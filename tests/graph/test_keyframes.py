"""Keyframes: selected pictures of a video, upright and small, or a message of one sentence."""

import resource
import struct
import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from ku_rag.errors import BadInput, MissingExtra, NotFound
from ku_rag.graph.keyframes import keyframes

av = pytest.importorskip("av", reason="PyAV is not installed")

RATE = 20
RED, BLUE = (255, 0, 0), (0, 0, 255)


def shade(number):
    """The grey level of a frame, distinct from those of the frames around it."""
    return 20 + number % 20 * 10


def grey(number, size):
    return Image.new("RGB", size, (shade(number),) * 3)


def halves(number, size):
    """Red on the left and blue on the right, in every frame."""
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (size[0] // 2, 0, *size))
    return image


def video(path, frames=60, *, size=(64, 48), codec="mpeg4", draw=grey, times=None, **options):
    """Write a video with a number of frames, at 20 a second or at these times (in 1/20 s)."""
    turn, aspect = options.pop("turn", None), options.pop("aspect", None)
    with av.open(str(path), "w", options=options) as out:
        stream = out.add_stream(codec, rate=RATE)
        stream.width, stream.height = size
        stream.pix_fmt = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
        stream.codec_context.gop_size = 12
        if turn:
            stream.set_display_rotation(*turn)
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        for number in range(frames):
            frame = av.VideoFrame.from_image(draw(number, size))
            frame.pts = times[number] if times else number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def numbers(result):
    """The frame number, modulo 20, that the grey level of each picture encodes."""
    return [round((np.asarray(image).mean() - 20) / 10) for image in result[0].values()]


def test_two_frames_a_second_are_taken(tmp_path):
    result = keyframes(video(tmp_path / "a.mp4", 60))
    assert list(result[0]) == [0, 10, 20, 30, 40, 50]
    assert numbers(result) == [0, 10, 0, 10, 0, 10]
    assert result[1]
    assert {(image.mode, image.size) for image in result[0].values()} == {("RGB", (64, 48))}


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"), ("a.mov", "mpeg4"), ("a.mkv", "libx264"), ("a.webm", "libvpx-vp9"),
        ("a.avi", "mpeg4"), ("a.ts", "libx264"), ("a.flv", "libx264"),
        ("a.ogv", "libvpx"), ("a.wmv", "wmv2"), ("a.gif", "gif"),
    ],
)  # fmt: skip
def test_a_long_video_gives_ten_evenly_spread_frames(tmp_path, name, codec):
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no {codec}")
    result = keyframes(video(tmp_path / name, 400, codec=codec))
    # 40 half seconds from 0 to 19.5, of which every 4.33rd is taken.
    halves_taken = [0, 4, 9, 13, 17, 22, 26, 30, 35, 39]
    assert list(result[0]) == [10 * half for half in halves_taken]
    assert numbers(result) == [10 * half % 20 for half in halves_taken]
    assert result[1]


def test_frames_of_uneven_length_are_found_by_what_is_shown(tmp_path):
    path = video(tmp_path / "a.mp4", 5, times=[0, 2, 30, 31, 60])
    # Half seconds 0.5 and 1.0 show the same frame, which is taken once.
    result = keyframes(path)
    assert list(result[0]) == [0, 1, 2, 3, 4]


def test_one_frame_is_a_video(tmp_path):
    result = keyframes(video(tmp_path / "a.mp4", 1))
    assert list(result[0]) == [0]


# ---- size and rotation -------------------------------------------------------------------------


def test_large_frames_are_scaled_and_small_ones_are_not(tmp_path):
    wide = keyframes(video(tmp_path / "wide.mp4", 1, size=(2048, 512)))
    assert wide[0][0].size == (1024, 256)
    path = video(tmp_path / "high.mp4", 1, size=(48, 96))
    assert keyframes(path)[0][0].size == (48, 96)


def test_pixels_become_square(tmp_path):
    path = video(tmp_path / "a.mkv", 1, aspect=2)
    assert keyframes(path)[0][0].size == (128, 48)
    path = video(tmp_path / "b.mkv", 1, size=(1024, 96), aspect=2)
    assert keyframes(path)[0][0].size == (1024, 48)


@pytest.mark.parametrize(
    ("turn", "size", "red", "blue"),
    [
        ((90,), (48, 64), (24, 60), (24, 4)),  # counterclockwise: the left side moves down
        ((-90,), (48, 64), (24, 4), (24, 60)),
        ((180,), (64, 48), (60, 24), (4, 24)),
    ],
)
def test_a_turned_camera_gives_upright_pictures(tmp_path, turn, size, red, blue):
    (picture,) = keyframes(video(tmp_path / "a.mp4", 1, draw=halves, turn=turn))[0].values()
    assert picture.size == size
    pixels = np.asarray(picture)
    for (x, y), channel in ((red, 0), (blue, 2)):
        assert pixels[y, x].argmax() == channel
        assert pixels[y, x].max() > 200


# ---- damaged videos ----------------------------------------------------------------------------


def noisy(number, size):
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), np.uint8))


def cut(path, share=0.6):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.avi", "mpeg4"), ("a.flv", "libx264")],
)
def test_of_a_video_that_was_cut_off_the_rest_is_kept(tmp_path, name, codec):
    path = video(
        tmp_path / name, 120, codec=codec, draw=noisy,
        **({"movflags": "faststart"} if name == "a.mp4" else {}),
    )  # fmt: skip
    whole = keyframes(path)
    assert (len(whole[0]), whole[1]) == (10, True)
    result = keyframes(cut(path))
    assert 2 <= len(result[0]) < 10
    assert max(result[0]) < 90
    assert not result[1]


def test_a_damaged_part_is_passed_over_and_said(tmp_path):
    path = video(tmp_path / "a.avi", 60, codec="mjpeg", draw=noisy)
    data = bytearray(path.read_bytes())
    starts = [at for at in range(len(data) - 2) if data[at : at + 2] == b"\xff\xd8"]
    assert len(starts) == 60
    for start, end in pairwise(starts[20:24]):
        data[start : end - 8] = bytes(end - 8 - start)  # only the header of a chunk remains
    path.write_bytes(data)
    result = keyframes(path)
    assert list(result[0]) == [0, 10, 23, 30, 40, 50]
    assert not result[1]


def test_a_video_without_its_table_or_its_frames_is_refused(tmp_path):
    path = cut(video(tmp_path / "a.mp4", 60, draw=noisy))  # its table is at the end
    with pytest.raises(BadInput, match=r"a\.mp4 is not a video .* it is truncated or damaged"):
        keyframes(path)
    path = video(tmp_path / "b.mkv", 60, draw=noisy)
    with pytest.raises(BadInput, match=r"holds no frames|is not a video"):
        keyframes(cut(path, 0.004))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"hello " * 100, bytes(5_000), b"#EXTM3U\n#EXTINF:1,\nother.mp4\n",
        b"ffconcat version 1.0\nfile other.mp4\n", b"\x89PNG\r\n\x1a\n" + bytes(100),
    ],
)  # fmt: skip
def test_other_files_are_no_videos_and_lead_to_none(tmp_path, data):
    video(tmp_path / "other.mp4", 5)
    path = tmp_path / "a.mp4"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"is not a video that can be read .* expected MP4, MOV"):
        keyframes(path)


def test_sound_is_no_video(tmp_path):
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate = 16_000
        out.mux(stream.encode(frame))
        out.mux(stream.encode())
    with pytest.raises(BadInput, match=r"no video stream \(it has audio\)"):
        keyframes(path)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(NotFound, match=r"nothing\.mp4 is not there: expected a video file"):
        keyframes(tmp_path / "nothing.mp4")
    with pytest.raises(BadInput, match="is a folder"):
        keyframes(tmp_path)


def patched(path, size, frame=0):
    """A motion JPEG of 64 × 48 pixels that declares another size from some frame on."""
    video(path, 20, codec="mjpeg", draw=noisy)
    data = bytearray(path.read_bytes())
    if frame == 0:
        header = data.index(b"strf") + 8
        data[header + 4 : header + 12] = struct.pack("<ii", *size)
    at = number = 0
    while (at := data.find(b"\xff\xc0\x00\x11\x08", at)) >= 0:
        if number >= frame:
            data[at + 5 : at + 9] = struct.pack(">HH", size[1], size[0])
        at, number = at + 5, number + 1
    assert number == 20
    path.write_bytes(data)
    return path


def test_sizes_are_bounded_before_decoding(tmp_path):
    first = patched(tmp_path / "a.avi", (15_000, 12_000))
    later = patched(tmp_path / "b.avi", (15_000, 12_000), frame=11)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match="frames of 15,000 × 12,000 pixels: at most 64,000,000"):
        keyframes(first)
    result = keyframes(later)
    assert list(result[0]) == [0, 10]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_without_pyav_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = video(tmp_path / "a.mp4", 1)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtra, match=r'pip install "ku-rag\[video\]"'):
        keyframes(path)
