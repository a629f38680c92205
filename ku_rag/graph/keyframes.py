"""Keyframes: a few evenly spread frames that represent a video (MH-MMKG, section 3.1).

The packets are read once without decoding, for the times of the frames. Then the selected frames
are decoded.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from PIL import Image

from ku_rag import arguments
from ku_rag.errors import BadInput, KuError
from ku_rag.pictures import MAX_PIXELS
from ku_rag.plugins import extra

MAX_FRAMES = 10
"""Keyframes of a video, the paper's number."""

RATE = 2.0
"""Candidates per second."""

MAX_SIDE = 1024
"""Pixels of the longer side of a keyframe; smaller frames keep their size."""

_MAX_BYTES = 1 << 40
_QUALITY = 95
# Containers that store their frames; playlists, which refer to other files, are left out.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,gif"
_EXPECTED = "MP4, MOV, MKV, WebM, AVI, MPEG, FLV, Ogg, WMV or GIF"
_TOLERANCE_S = 1.0
"""Seconds by which a video may be shorter than its header says."""
_SEEK_MARGIN_S = 1.0
"""Seconds before a frame at which decoding starts: some containers seek inexactly."""


@dataclass(frozen=True, slots=True)
class Keyframe:
    """One frame of a video.

    Args:
        seconds: its time, counted from the first frame.
        number: its position in the video, from 0 on.
        picture: upright RGB.
    """

    seconds: float
    number: int
    picture: Image.Image


@dataclass(frozen=True, slots=True)
class Keyframes:
    """The keyframes of a video.

    Args:
        frames: in display order; at least one.
        seconds: length of the readable part of the video.
        missing: what could not be read, in one sentence, or "".
    """

    frames: tuple[Keyframe, ...]
    seconds: float
    missing: str = ""


def keyframes(
    path: Path, *, max_frames: int = MAX_FRAMES, rate: float = RATE, max_side: int = MAX_SIDE
) -> Keyframes:
    """Read evenly spread frames of a video.

    A truncated video gives the frames that can be read, and `missing` reports the rest.

    Args:
        path: the video file.
        max_frames: most keyframes, at least 1.
        rate: candidates per second, more than 0.
        max_side: pixels of the longer side, at least 1.

    Raises:
        NotFound: there is no such file.
        BadInput: it is not a video, no frame can be decoded, or its frames have more than
            `MAX_PIXELS` pixels.
        MissingExtra: PyAV is not installed.
    """
    arguments.regular_file(path, "a video file", most=_MAX_BYTES)
    av = extra("video", "av")
    try:
        container = av.open(
            str(path.resolve()),
            container_options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"},
        )
    except (av.FFmpegError, UnicodeError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
        raise BadInput(
            f"{path} is not a video that can be read ({reason}): expected {_EXPECTED}; if it is "
            "one of these, it is truncated or damaged: copy it again"
        ) from error
    with container:
        stream = _video_stream(path, container)
        tick = float(stream.time_base)
        times, end, damaged = _frame_times(av, container, stream)
        if not times:
            raise BadInput(f"{path} holds no frames: it is truncated; save or copy it again")
        frames = {}
        for number in _spread(times, tick, max_frames, rate):
            frame = _frame_at(av, container, stream, times, number)
            damaged = damaged or frame is None or frame.pts != times[number]
            if frame is not None:
                shown = max(bisect_right(times, frame.pts) - 1, 0)
                picture = _picture(frame, stream, max_side)
                frames[shown] = Keyframe((times[shown] - times[0]) * tick, shown, picture)
        expected = _expected_seconds(container, stream)
    if not frames:
        raise BadInput(
            f"{path}: none of its {len(times):,} frames can be decoded: it is truncated or "
            "damaged; save or copy it again"
        )
    seconds = (end - times[0]) * tick
    missing = "a part of it is damaged: copy it again" if damaged else ""
    if expected > seconds + _TOLERANCE_S:
        missing = f"it ends after {seconds:.1f} s of {expected:.1f} s: copy it again"
    return Keyframes(tuple(frames.values()), seconds, missing)


def write_keyframes(videos: Iterable[str], folder: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Extract keyframes and write them as JPEG files.

    Args:
        videos: Paths of the videos.
        folder: Where the frames are written; it is made when needed.

    Returns:
        The files, and what is wrong with videos that could not be read.
    """
    images: list[Path] = []
    problems: list[str] = []
    for name in videos:
        try:
            found = keyframes(Path(name))
        except KuError as error:
            problems.append(str(error))
            continue
        if found.missing:
            problems.append(found.missing)
        folder.mkdir(parents=True, exist_ok=True)
        stem = sha256(name.encode()).hexdigest()[:16]
        for frame in found.frames:
            file = folder / f"{stem}-{frame.number}.jpg"
            frame.picture.save(file, quality=_QUALITY)
            images.append(file)
    return tuple(images), problems


def _video_stream(path: Path, container: Any) -> Any:  # noqa: ANN401 - PyAV is optional
    """Return the first video stream, after a check of its frame size."""
    for stream in container.streams.video:
        if not stream.disposition & stream.disposition.attached_pic:
            break
    else:
        others = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
        raise BadInput(f"{path} has no video stream (it has {others}): expected a video")
    width, height = stream.codec_context.width, stream.codec_context.height
    if width * height > MAX_PIXELS:
        raise BadInput(
            f"{path} has frames of {width:,} × {height:,} pixels: at most {MAX_PIXELS:,} are "
            "decoded; scale it down"
        )
    # The decoder skips frames whose own headers give a larger size.
    stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    return stream


def _frame_times(
    av: Any,  # noqa: ANN401
    container: Any,  # noqa: ANN401
    stream: Any,  # noqa: ANN401
) -> tuple[array[int], int, bool]:
    """Return the times of the frames in ticks, ascending, their end, and whether some are damaged.

    Frames before the first one that can be decoded by itself are left out.
    """
    times, end = array("q"), 0
    started = damaged = False
    try:
        for packet in container.demux(stream):
            damaged = damaged or packet.is_corrupt
            started = started or packet.is_keyframe
            if packet.size and started and not packet.is_discard:
                time = next((t for t in (packet.pts, packet.dts) if t is not None), end)
                times.append(time)
                end = max(end, time + (packet.duration or 0))
    except av.FFmpegError:
        damaged = True
    return array("q", sorted(times)), end, damaged


def _expected_seconds(container: Any, stream: Any) -> float:  # noqa: ANN401
    """Return the length that the headers give for the stream, or 0 if they do not."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    # A container's length covers its sound as well, which may be longer.
    return (container.duration or 0) / 1e6 if len(container.streams) == 1 else 0.0


def _spread(times: Sequence[int], tick: float, max_frames: int, rate: float) -> list[int]:
    """Return the numbers of the frames shown at evenly spread candidate times, both ends included.

    A single frame is the middle one.
    """
    count = math.floor((times[-1] - times[0]) * tick * rate + 1e-6) + 1
    chosen = list(range(count))
    if count > max_frames:
        last = max(max_frames - 1, 1)
        chosen = [round(n * (count - 1) / last) for n in range(max_frames)]
        if max_frames == 1:
            chosen = [count // 2]
    ticks = (times[0] + math.floor(n / rate / tick + 1e-6) for n in chosen)
    return list(dict.fromkeys(max(bisect_right(times, time) - 1, 0) for time in ticks))


def _frame_at(
    av: Any,  # noqa: ANN401
    container: Any,  # noqa: ANN401
    stream: Any,  # noqa: ANN401
    times: Sequence[int],
    number: int,
) -> Any:  # noqa: ANN401
    """Return a frame, the next one that can be decoded if it is damaged, or None."""
    time, first = times[number], times[0]
    margin = round(_SEEK_MARGIN_S / float(stream.time_base))
    frame = None
    for start in (max(time - margin, first), first - margin):
        try:
            container.seek(start, stream=stream)
        except av.FFmpegError:
            continue
        frame = next((one for one in _decode(av, container, stream) if one.pts >= time), None)
        if frame is not None and frame.pts == time:
            break
    return frame


def _decode(av: Any, container: Any, stream: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the undamaged frames from the present position on."""
    try:
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue
            yield from (one for one in frames if not one.is_corrupt and one.pts is not None)
    except av.FFmpegError:
        return


def _picture(frame: Any, stream: Any, max_side: int) -> Image.Image:  # noqa: ANN401
    """Return a frame as upright RGB with square pixels, its longer side at most `max_side`."""
    aspect = float(stream.sample_aspect_ratio or 1)
    width = frame.width * (aspect if 0.1 < aspect < 10 else 1.0)
    scale = min(1.0, max_side / max(width, frame.height))
    size = (max(1, round(width * scale)), max(1, round(frame.height * scale)))
    picture: Image.Image = frame.to_image(width=size[0], height=size[1])
    return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture
