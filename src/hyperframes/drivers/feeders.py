"""Threads that bring frames to a live run: cameras, and files or iterables replayed at their own pace or flat out."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hyperframes.errors import PipelineError
from hyperframes.frames import Frame, FrameSpec, copy_planes
from hyperframes.sources import Source, open_source
from hyperframes.sources.camera import Capture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hyperframes.drivers.station import Station

__all__ = ["Feeder", "Replay", "feeder_for", "is_camera"]

_CAMERA = re.compile(r"^(rtsps?|rtp|rtmps?|udp|tcp|srt|https?)://|^/dev/video", re.IGNORECASE)
_FILES = re.compile(r"^https?://[^?#]*\.(mp4|mkv|mov|avi|webm|npy|zarr)([?#]|$)", re.IGNORECASE)
"""Of what a web server has; whatever the path of a stream ends in, it is sent as it is taken."""
RATE_MOST = 1_000_000
"""Frames a second."""


class Feeder(Protocol):
    """A running capture of one stream."""

    @property
    def running(self) -> bool:
        """Whether it may still bring frames."""
        ...

    @property
    def inside(self) -> bool:
        """Whether the thread that brings frames asks."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End soon; returns at once."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        ...


def is_camera(what: Any) -> bool:
    """Whether `what` is a URL or device that delivers frames as they are taken; files are replayed."""
    return isinstance(what, str) and bool(_CAMERA.match(what)) and not _FILES.match(what)


def feeder_for(what: Any, station: Station, options: dict[str, Any], *, unix_ns: Callable[[], int]) -> Feeder:
    """Return what brings the frames of `what` to a station.

    Raises
    ------
    PipelineError
        If such a source has no option of a name, or an option has a value that makes no sense.
    """
    options = dict(options)
    if is_camera(what):
        options.pop("pace", None)
        if "rate" in options:
            raise PipelineError(f"source {station.name!r} is a camera: it tells its rate itself", got=options["rate"])
        options["record"], station.record = station.record, None  # packets instead of frames
        return Camera(what, station, unix_ns=unix_ns, **options)
    if unknown := sorted(options.keys() - {"pace", "rate"}):
        raise PipelineError(
            f"source {station.name!r} is replayed and takes pace and rate: got {unknown[0]}",
            got=unknown[0],
            hint="Other options are those of cameras: rtsp://, udp://, tcp://, http://, /dev/video0.",
        )
    return Replay(what, station, unix_ns=unix_ns, **options)


class Camera:
    """Brings the frames of a URL or device as they are taken; see `hyperframes.sources.camera.Capture`."""

    def __init__(self, url: str, station: Station, *, unix_ns: Callable[[], int], **options: Any) -> None:
        self._station, self._stopped = station, False
        self.capture = Capture(url, station, wall=unix_ns, **options)

    @property
    def running(self) -> bool:
        """Whether it may still bring frames."""
        return not self._station.over and self.capture.status().state != "ended"

    @property
    def inside(self) -> bool:
        """Whether the thread that brings frames asks: it calls nothing of others."""
        return False

    def start(self) -> None:
        """Begin."""
        self.capture.start()

    def stop(self) -> None:
        """End soon."""
        self._stopped = True
        self.capture.close(0.0)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end; once it was stopped, no longer than 3 s for a read that hangs."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._stopped and self.running and (end is None or time.monotonic() < end):
            time.sleep(0.02)
        if self._stopped:
            self.capture.close(3.0 if timeout is None else min(3.0, timeout))


class Replay:
    """Brings frames that exist already, at their own pace or as fast as they are taken.

    Parameters
    ----------
    what : path, array, Source, or iterable of Frame or arrays
        Where they come from; opened by the thread.
    station : Station
        Where they go.
    unix_ns : function
        The run's clock.
    pace : {"real", "flat"}
        ``real``: each frame when its time has come, counted from the first.
    rate : number, optional
        Frames a second of iterables of arrays, which have no times; default 30.
    """

    def __init__(
        self, what: Any, station: Station, *, unix_ns: Callable[[], int], pace: str = "real", rate: float | None = None
    ) -> None:
        if pace not in {"real", "flat"}:
            raise PipelineError(f"pace: expected one of real, flat, got {pace!r}", got=pace)
        self._what, self._station, self._unix_ns, self._pace = what, station, unix_ns, pace
        if rate is not None and not 0 < rate <= RATE_MOST:
            raise PipelineError(f"rate: expected more than 0 frames a second, got {rate!r}", got=rate)
        self._rate = None if rate is None else Fraction(rate).limit_denominator(1_000_000)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hyperframes-replay-{station.name}", daemon=True)
        station.trusted = True

    @property
    def running(self) -> bool:
        """Whether it may still bring frames."""
        return self._thread.is_alive()

    @property
    def inside(self) -> bool:
        """Whether the thread that brings frames asks: what it iterates over may."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        reason = "ended"
        try:
            if isinstance(self._what, Iterable) and not isinstance(self._what, str | np.ndarray | tuple | Source):
                self._bring(_as_frames(self._what, self._rate or Fraction(30)), self._rate)
            else:
                source = open_source(self._what)
                try:
                    self._bring(source.read(), self._rate or source.spec.rate)
                finally:
                    if source is not self._what:
                        source.close()
        except BaseException as error:  # noqa: BLE001 - the stream ends and says why, the others go on; also sys.exit()
            reason = f"failed: {str(error) or type(error).__name__}"
        self._station.end(reason)

    def _bring(self, frames: Iterator[Frame], rate: Fraction | None) -> None:
        station, spec = self._station, None
        began_ns = began = 0.0
        first = 0
        for number, frame in enumerate(frames):
            if not number:
                began, first = time.monotonic(), frame.pts
                began_ns = self._unix_ns()
            if spec is None or not spec.same_arrays(frame.spec):
                spec = frame.spec
                station.open(spec, rate=rate)
                if not number:
                    began, began_ns = time.monotonic(), self._unix_ns()  # planning and compiling took their time
            at = float((frame.pts - first) * frame.spec.time_base)
            if self._pace == "real" and self._stopped.wait(max(0.0, began + at - time.monotonic())):
                return
            if self._stopped.is_set() or station.closed:
                return
            capture_ns = int(began_ns) + round(at * 1e9)
            slot = station.slot(frame_id=frame.index, capture_ns=capture_ns, arrival_ns=self._unix_ns())
            if slot is not None:
                copy_planes(slot, frame.planes)
                station.push()


def _as_frames(what: Iterable[Any], rate: Fraction) -> Iterator[Frame]:
    for index, item in enumerate(what):
        if isinstance(item, Frame):
            yield item
            continue
        planes = (item,) if isinstance(item, np.ndarray) else tuple(item)
        spec = FrameSpec.array(planes[0].shape, planes[0].dtype, time_base=1 / rate)
        yield Frame(planes, index, index, spec)
