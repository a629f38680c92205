"""Keyframes: a few evenly spread frames that represent a video (MH-MMKG, section 3.1).

The packets are read once without decoding, for the times of the frames. Then the selected frames
are decoded.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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

_RATE = 2.0
"""Candidates per second."""
_MAX_SIDE = 1024
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


def keyframes(path: Path) -> tuple[dict[int, Image.Image], bool]:
    """Read up to `MAX_FRAMES` evenly spread RGB frames of a video, by their position from 0.

    A truncated video gives the frames that can be read; the second result is whether all can be.
    `BadInput` if none can, or they have more than `MAX_PIXELS` pixels.
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
        return _Video(path, av, container).keyframes()


def write_keyframes(videos: Iterable[str], folder: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Write keyframes as JPEG files; return them, and what is wrong with unreadable videos."""
    images: list[Path] = []
    problems: list[str] = []
    for name in videos:
        try:
            frames, is_complete = keyframes(Path(name))
        except KuError as error:
            problems.append(str(error))
            continue
        if not is_complete:
            problems.append(f"{name} is truncated or damaged: copy it again")
        folder.mkdir(parents=True, exist_ok=True)
        stem = sha256(name.encode()).hexdigest()[:16]
        for number, picture in frames.items():
            images.append(folder / f"{stem}-{number}.jpg")
            picture.save(images[-1], quality=_QUALITY)
    return tuple(images), problems


class _Video:
    """An open video: the first video stream of a container of PyAV, whose module is `av`."""

    def __init__(self, path: Path, av: Any, container: Any) -> None:  # noqa: ANN401 - optional
        self._path, self._av, self._container = path, av, container
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
        self._stream, self._tick = stream, float(stream.time_base)

    def keyframes(self) -> tuple[dict[int, Image.Image], bool]:
        """Return the keyframes, and whether all of the video can be read."""
        times, end, damaged = self._frame_times()
        frames = {}
        for time in _spread(times, self._tick) if times else ():
            frame = self._frame_at(time, times[0])
            damaged = damaged or frame is None or frame.pts != time
            if frame is not None:
                frames[max(bisect_right(times, frame.pts) - 1, 0)] = self._picture(frame)
        if not frames:
            raise BadInput(
                f"{self._path} holds no frames that can be decoded: it is truncated or damaged; "
                "save or copy it again"
            )
        expected = 0.0
        if self._stream.duration:
            expected = float(self._stream.duration * self._stream.time_base)
        elif len(self._container.streams) == 1:
            # A container's length covers its sound as well, which may be longer.
            expected = (self._container.duration or 0) / 1e6
        is_short = (end - times[0]) * self._tick + _TOLERANCE_S < expected
        return frames, not (damaged or is_short)

    def _frame_times(self) -> tuple[array[int], int, bool]:
        """Return times of decodable frames, ascending, their end, and whether some are bad."""
        times, end = array("q"), 0
        started = damaged = False
        try:
            for packet in self._container.demux(self._stream):
                damaged = damaged or packet.is_corrupt
                started = started or packet.is_keyframe
                if packet.size and started and not packet.is_discard:
                    time = next((t for t in (packet.pts, packet.dts) if t is not None), end)
                    times.append(time)
                    end = max(end, time + (packet.duration or 0))
        except self._av.FFmpegError:
            damaged = True
        return array("q", sorted(times)), end, damaged

    def _frame_at(self, time: int, first: int) -> Any:  # noqa: ANN401
        """Return a frame, the next one that can be decoded if it is damaged, or None."""
        margin = round(_SEEK_MARGIN_S / self._tick)
        frame = None
        for start in (max(time - margin, first), first - margin):
            try:
                self._container.seek(start, stream=self._stream)
            except self._av.FFmpegError:
                continue
            frame = next((frame for frame in self._decode() if frame.pts >= time), None)
            if frame is not None and frame.pts == time:
                break
        return frame

    def _decode(self) -> Iterator[Any]:
        """Yield the undamaged frames from the present position on."""
        with suppress(self._av.FFmpegError):
            for packet in self._container.demux(self._stream):
                with suppress(self._av.FFmpegError):
                    frames = packet.decode()
                    yield from (f for f in frames if not f.is_corrupt and f.pts is not None)

    def _picture(self, frame: Any) -> Image.Image:  # noqa: ANN401
        """Return a frame as upright RGB with square pixels, its longer side at most 1,024."""
        aspect = float(self._stream.sample_aspect_ratio or 1)
        width = frame.width * (aspect if 0.1 < aspect < 10 else 1.0)
        scale = min(1.0, _MAX_SIDE / max(width, frame.height))
        size = (max(1, round(width * scale)), max(1, round(frame.height * scale)))
        picture: Image.Image = frame.to_image(width=size[0], height=size[1])
        return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture


def _spread(times: Sequence[int], tick: float) -> list[int]:
    """Return the times of the frames shown at evenly spread candidate times, both ends included."""
    count = math.floor((times[-1] - times[0]) * tick * _RATE + 1e-6) + 1
    spread = (round(n * (count - 1) / (MAX_FRAMES - 1)) for n in range(MAX_FRAMES))
    chosen = range(count) if count <= MAX_FRAMES else spread
    ticks = (times[0] + math.floor(n / _RATE / tick + 1e-6) for n in chosen)
    return list(dict.fromkeys(times[max(bisect_right(times, at) - 1, 0)] for at in ticks))
