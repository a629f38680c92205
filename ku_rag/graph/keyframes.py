"""Keyframes: the few pictures that stand for a video (MH-MMKG, 3.1).

A video is read twice: once without decoding, which tells when each frame is shown, then only where
a frame is wanted. Of the others no more is kept than the time at which they are shown.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.pictures import MAX_PIXELS
from ku_rag.plugins import extra

MOST = 10
"""Frames that are taken of a video when none are named, the paper's number."""

RATE = 2.0
"""Frames a second that these are chosen from."""

LONGEST = 1024
"""Pixels of the longer side of a frame; a smaller one keeps its size."""

_MOST_NAMED = 100
_MOST_FRAMES = 5_000_000
"""A day at 50 frames a second: what is noted of each takes up to 24 bytes."""
_MOST_BYTES = 1 << 40
_THREADED = 10_000_000
"""Pixels of frames that several are decoded of at once: each thread holds some."""
# Containers that hold their frames themselves; those that only point to other files are left out.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,gif"
_KNOWN = "MP4, MOV, MKV, WebM, AVI, MPEG, FLV, Ogg, WMV or GIF"
_CLOCK = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")
_SHORT = 1.0
"""Seconds that may lack at the end before it is said."""
_TURNS = {
    (-1, 0, 0, 1): Image.Transpose.FLIP_LEFT_RIGHT,
    (-1, 0, 0, -1): Image.Transpose.ROTATE_180,
    (1, 0, 0, -1): Image.Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Image.Transpose.TRANSPOSE,
    (0, -1, 1, 0): Image.Transpose.ROTATE_90,
    (0, 1, -1, 0): Image.Transpose.ROTATE_270,
    (0, -1, -1, 0): Image.Transpose.TRANSVERSE,
}
"""Signs of a display matrix (x to x, x to y, y to x, y to y) → what it does to a picture."""


@dataclass(frozen=True, slots=True)
class Keyframe:
    """A picture out of a video.

    Args:
        seconds: when it is shown, counted from the first frame.
        number: of the frame, the first being 0.
        picture: upright RGB.
    """

    seconds: float
    number: int
    picture: Image.Image


@dataclass(frozen=True, slots=True)
class Keyframes:
    """What was taken of a video.

    Args:
        frames: in the order in which they are shown; at least one.
        seconds: how long the video is, as far as it could be read.
        missing: what could not be read, in one sentence, or "".
    """

    frames: tuple[Keyframe, ...]
    seconds: float
    missing: str = ""


def keyframes(
    path: Path,
    *,
    seconds: Sequence[float] | None = None,
    numbers: Sequence[int] | None = None,
    most: int = MOST,
    rate: float = RATE,
    longest: int = LONGEST,
) -> Keyframes:
    """Take frames out of a video: evenly spread ones, or those that are named.

    What can be read of a video that was cut off is taken, and `missing` says so.

    Args:
        path: the video file.
        seconds: times from the first frame on; what is shown then is taken. At most 100.
        numbers: frames by number, the first being 0; not together with `seconds`. At most 100.
        most: frames that are taken when none are named.
        rate: frames a second that these are evenly chosen from.
        longest: pixels that the longer side may have.

    Raises:
        NotFound: there is no such file.
        BadInput: it is no video, has no frames that can be read, more pixels than `MAX_PIXELS` or
            more frames than can be noted, or does not last until a named frame; or an argument is
            out of its range.
        MissingExtra: PyAV is not installed.
    """
    asked = _asked(seconds, numbers, most, rate, longest)
    arguments.regular_file(path, "a video file", most=_MOST_BYTES)
    av = extra("video", "av")
    with _opened(av, path) as container:
        stream = _stream(path, container)
        timeline = _timeline(av, path, container, stream)
        wanted = _wanted(path, timeline, asked)
        frames = tuple(_taken(av, container, stream, timeline, wanted, longest))
    if not frames:
        raise BadInput(
            f"{path}: of its {len(timeline.times):,} frames none that was wanted can be decoded: "
            "it was cut off or damaged; save or copy it again"
        )
    return Keyframes(frames, timeline.seconds, _missing(timeline, asked.named or wanted, frames))


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which frames: by `seconds`, by `numbers`, or, when both are None, evenly spread ones."""

    seconds: tuple[float, ...] | None
    numbers: tuple[int, ...] | None
    most: int
    rate: float

    @property
    def named(self) -> tuple[float, ...]:
        return self.seconds or self.numbers or ()


def _asked(
    seconds: Sequence[float] | None,
    numbers: Sequence[int] | None,
    most: int,
    rate: float,
    longest: int,
) -> _Asked:
    arguments.count(most, "most", least=1, most=_MOST_NAMED)
    arguments.count(longest, "longest", least=1, most=1 << 14)
    if not 0 < rate <= 1000:
        raise BadInput(f"rate is {rate!r}: expected frames a second, more than 0, at most 1,000")
    if seconds is not None and numbers is not None:
        raise BadInput("both seconds and numbers are given: name the frames by one of them")
    for what, named in (("seconds", seconds), ("numbers", numbers)):
        if named is not None and not 1 <= len(named) <= _MOST_NAMED:
            raise BadInput(f"{what} names {len(named):,} frames: expected 1 to {_MOST_NAMED}")
    for second in seconds or ():
        if isinstance(second, bool) or not isinstance(second, int | float) or not 0 <= second < 1e9:
            raise BadInput(f"seconds has {second!r}: expected a time from 0 on, such as 1.5")
    for number in numbers or ():
        arguments.count(number, "a frame's number", least=0, most=_MOST_FRAMES)
    return _Asked(
        None if seconds is None else tuple(sorted(set(seconds))),
        None if numbers is None else tuple(sorted(set(numbers))),
        most,
        rate,
    )


# ---- opening -----------------------------------------------------------------------------------


def _opened(av: Any, path: Path) -> Any:  # noqa: ANN401 - PyAV is optional
    """The container, its header read."""
    try:
        return av.open(
            str(path.resolve()),
            container_options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"},
        )
    except (av.FFmpegError, UnicodeError) as error:
        raise BadInput(
            f"{path} is no video that can be read ({_reason(error)}): expected {_KNOWN}; "
            "if it is one of these, it was cut off or damaged: copy it again"
        ) from error


def _stream(path: Path, container: Any) -> Any:  # noqa: ANN401
    """The first stream of moving pictures, its size found bearable."""
    for stream in container.streams.video:
        if not stream.disposition & stream.disposition.attached_pic:
            break
    else:
        others = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
        raise BadInput(f"{path} has no moving pictures (it has {others}): expected a video")
    width, height = stream.codec_context.width, stream.codec_context.height
    if width * height > MAX_PIXELS:
        raise BadInput(
            f"{path} has frames of {width:,} × {height:,} pixels: at most {MAX_PIXELS:,} are "
            "decoded; scale it down"
        )
    # Frames that grow larger on the way are then left out by the decoder.
    stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    if width * height <= _THREADED:
        stream.thread_type = "AUTO"
    return stream


# ---- which frames there are --------------------------------------------------------------------


class _Timeline:
    """When each frame is shown, in ticks, and where decoding may begin.

    Args:
        tick: seconds.
        told: seconds that the video should last by what it says itself; 0 when it says nothing.
        damaged: whether a part could not be read.
    """

    def __init__(self, tick: float, told: float) -> None:
        self.tick, self.told = tick, told
        self.damaged = False
        self.times = array("q")
        self._end = 0
        # Of the frames that need no other: when they are shown, and where to seek to.
        self._entries, self._places = array("q"), array("q")

    def add(self, packet: Any) -> None:  # noqa: ANN401
        """Note a packet, one frame, as it comes: in the order in which they are decoded."""
        self.damaged |= packet.is_corrupt
        first, second = packet.pts, packet.dts
        time = next((t for t in (first, second) if t is not None), self._end)
        if packet.is_keyframe:
            self._entries.append(time)
            self._places.append(min(time, time if second is None else second))
        if self._entries and not packet.is_discard:
            self.times.append(time)
            self._end = max(self._end, time + (packet.duration or 0))

    def sort(self) -> None:
        """Bring the frames into the order in which they are shown."""
        self.times = array("q", sorted(self.times))

    @property
    def seconds(self) -> float:
        """How long the video is."""
        return (max(self._end, self.times[-1]) - self.times[0]) * self.tick

    @property
    def short(self) -> bool:
        """Whether it is shorter than it says."""
        return self.told > self.seconds + _SHORT

    def second(self, number: int) -> float:
        """When a frame is shown, from the first one on."""
        return (self.times[number] - self.times[0]) * self.tick

    def at(self, time: int) -> int:
        """The number of the frame that is shown at a time in ticks."""
        return max(bisect_right(self.times, time) - 1, 0)

    def at_second(self, second: float) -> int:
        """The number of the frame that is shown at a time."""
        return self.at(self.times[0] + math.floor(second / self.tick + 1e-6))

    def entry(self, time: int, back: int = 0) -> tuple[int, int]:
        """The last entry at or before a time, or `back` before that: when, and where to seek."""
        at = max(bisect_right(self._entries, time) - 1 - back, 0)
        return self._entries[at], self._places[at]


def _timeline(av: Any, path: Path, container: Any, stream: Any) -> _Timeline:  # noqa: ANN401
    timeline = _Timeline(float(stream.time_base), _told(container, stream))
    try:
        for packet in container.demux(stream):
            if packet.size:
                timeline.add(packet)
            if len(timeline.times) > _MOST_FRAMES:
                raise BadInput(
                    f"{path} has more than {_MOST_FRAMES:,} frames: cut out the part that matters"
                )
    except av.FFmpegError:
        timeline.damaged = True
    if not timeline.times:
        raise BadInput(
            f"{path} says that it is a video and holds no frames: it was cut off or never "
            "finished; save or copy it again"
        )
    timeline.sort()
    return timeline


def _told(container: Any, stream: Any) -> float:  # noqa: ANN401
    """Seconds that a video should last by what its header says of this stream, or 0."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    if found := _CLOCK.match(stream.metadata.get("DURATION", "")):
        hours, minutes, seconds = map(float, found.groups())
        return hours * 3600 + minutes * 60 + seconds
    # Sound may go on when the pictures have ended.
    return (container.duration or 0) / 1e6 if len(container.streams) == 1 else 0.0


def _wanted(path: Path, timeline: _Timeline, asked: _Asked) -> list[int]:
    """Numbers of the frames to take, ascending; named ones that a cut took away are left out."""
    if asked.numbers is not None:
        there, last = len(timeline.times), f"has {len(timeline.times):,} frames, from 0 on"
        numbers = [number for number in asked.numbers if number < there]
    elif asked.seconds is not None:
        last = f"lasts {timeline.seconds:.2f} s"
        numbers = [
            timeline.at_second(second) for second in asked.seconds if second <= timeline.seconds
        ]
    else:
        samples = math.floor(timeline.second(-1) * asked.rate + 1e-6) + 1
        return _unique(timeline.at_second(n / asked.rate) for n in _spread(samples, asked.most))
    if len(numbers) < len(asked.named) and not (timeline.short or timeline.damaged):
        raise BadInput(f"{path} {last}: {asked.named[-1]} was asked for; name one that is there")
    return _unique(numbers)


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, evenly, with both ends; of one the middle."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count // 2]
    return [round(n * (count - 1) / (most - 1)) for n in range(most)]


def _unique(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


# ---- taking them -------------------------------------------------------------------------------


def _taken(
    av: Any,  # noqa: ANN401
    container: Any,  # noqa: ANN401
    stream: Any,  # noqa: ANN401
    timeline: _Timeline,
    wanted: Sequence[int],
    longest: int,
) -> Iterator[Keyframe]:
    """The wanted frames; for one that cannot be decoded the next that can."""
    frames: Iterator[Any] = iter(())
    frame, came = None, -math.inf
    for number in wanted:
        time = timeline.times[number]
        if time <= came:
            continue
        for back in (0, 1):
            entry, place = timeline.entry(time, back)
            # Decoding on is what it takes anyway when no entry lies between.
            if back or frame is None or entry > came:
                container.seek(place, stream=stream)
                frames = _frames(av, container, stream, timeline)
            frame = next((one for one in frames if one.pts >= time), None)
            # Some containers are found their way in too late.
            if frame is not None and frame.pts == time:
                break
        if frame is None:
            return
        came = frame.pts
        shown = timeline.at(frame.pts)
        yield Keyframe(timeline.second(shown), shown, _picture(frame, stream, longest))


def _frames(av: Any, container: Any, stream: Any, timeline: _Timeline) -> Iterator[Any]:  # noqa: ANN401
    """The frames from here on that can be decoded whole."""
    try:
        for packet in container.demux(stream):
            try:
                for frame in packet.decode():
                    if frame.is_corrupt or frame.pts is None:
                        timeline.damaged = True
                    else:
                        yield frame
            except av.FFmpegError:
                timeline.damaged = True
    except av.FFmpegError:
        timeline.damaged = True


def _picture(frame: Any, stream: Any, longest: int) -> Image.Image:  # noqa: ANN401
    """A frame as upright RGB with square pixels, its longer side at most `longest`."""
    aspect = float(stream.sample_aspect_ratio or 1)
    width = frame.width * (aspect if 0.1 < aspect < 10 else 1.0)
    scale = min(1.0, longest / max(width, frame.height))
    size = (max(1, round(width * scale)), max(1, round(frame.height * scale)))
    picture: Image.Image = frame.to_image(width=size[0], height=size[1])
    matrix = frame.side_data.get("DISPLAYMATRIX")
    turn = _TURNS.get(_signs(bytes(matrix))) if matrix else None
    return picture if turn is None else picture.transpose(turn)


def _signs(matrix: bytes) -> tuple[int, int, int, int]:
    """The signs of what a display matrix (int32[3, 3]) does to x and y."""
    a, b, _, c, d = struct.unpack_from("<5i", matrix)
    return _sign(a), _sign(b), _sign(c), _sign(d)


def _sign(part: int) -> int:
    return (part > 0) - (part < 0)


def _missing(timeline: _Timeline, wanted: Sequence[float], frames: Sequence[Keyframe]) -> str:
    said = []
    if timeline.short:
        said.append(f"it should last {timeline.told:.1f} s and ends after {timeline.seconds:.1f} s")
    elif timeline.damaged:
        said.append("a part of it is damaged")
    if said and len(frames) < len(wanted):
        said.append(f"{len(frames)} of {len(wanted)} frames could be taken")
    return "; ".join(said) + (": copy it again if there is more of it" if said else "")


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
