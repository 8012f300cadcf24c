"""RTSP cameras for tests: one process on Debian's GStreamer serves any number of them and obeys commands.

Nothing is encoded here: clips of encoded pictures are sent over and over at the cameras' rate. Picture k of camera i is due
at ``start + i * stagger + k / rate`` of one clock for all cameras, whoever watches, so equal counters mean equal instants.
Runs under the interpreter that has the `gi` module; standard input takes one JSON command a line, standard output answers.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import struct
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import GLib, Gst, GstApp, GstRtspServer  # noqa: F401 - without GstApp, its sources are sometimes no elements

LAUNCH = (
    "( appsrc name=pictures is-live=true format=time block=false max-bytes=0 "
    "caps=video/x-h264,stream-format=byte-stream,alignment=au "
    "! h264parse ! rtph264pay name=pay0 pt=96 config-interval=0 aggregate-mode=zero-latency )"
)
TICK_MS = 3
SAME_NS = 5_000_000
"""Times as near as this are one: two clocks are read one after the other."""


def read_clip(path: str) -> list[Gst.Buffer]:
    """Return the access units of a file of length-prefixed ones."""
    with open(path, "rb") as file:
        data = file.read()
    units, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        units.append(Gst.Buffer.new_wrapped(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return units


class Outlet:
    """The pipeline of one client. Clients share none: one that comes while another leaves would abort the server."""

    def __init__(self, media: object) -> None:
        self.media = media
        self.source = media.get_element().get_by_name("pictures")
        self.last_pts = 0

    def send(self, buffer: Gst.Buffer, due_ns: int, now_ns: int) -> None:
        """Push a picture with its capture time, as running time of this pipeline."""
        if self.source.current_state != Gst.State.PLAYING:
            return
        running = self.source.get_current_running_time()
        if running == Gst.CLOCK_TIME_NONE:
            return
        pts = running - (now_ns - due_ns)
        if pts < self.last_pts - SAME_NS:
            return
        self.last_pts = pts = max(pts, self.last_pts)
        copy = buffer.copy_deep()  # `copy` gives the same buffer again, whose times the next camera would overwrite
        copy.pts = copy.dts = pts
        self.source.emit("push-buffer", copy)


class Camera:
    """One mount point, and how it misbehaves."""

    def __init__(self, index: int, clip: list[Gst.Buffer], period_ns: int, offset_ns: int) -> None:
        self.index, self.clip, self.period_ns, self.offset_ns = index, clip, period_ns, offset_ns
        self.outlets: list[Outlet] = []
        self.sent = 0
        self.frozen = False
        self.paired = False
        self.loss = self.skew = self.jitter_ms = 0.0
        self.pivot = (0, 0)
        """Picture and due time from which on the present rate holds: a new skew moves no picture already sent."""
        self.next = 0

    def due_ns(self, picture: int) -> int:
        """Return when `picture` is captured, in nanoseconds of the server's clock."""
        first, since_ns = self.pivot
        return since_ns + round((picture - first) * self.period_ns * (1 + self.skew * 1e-6))

    def set_skew(self, skew: float) -> None:
        """Run `skew` parts per million slow from the next picture on."""
        self.pivot = (self.next, self.due_ns(self.next))
        self.skew = skew

    def skip_to(self, now_ns: int) -> None:
        """Let the next picture be the first one due after `now_ns`: what nobody watches is not sent later."""
        while self.due_ns(self.next) < now_ns:
            behind = int((now_ns - self.due_ns(self.next)) / (self.period_ns * (1 + self.skew * 1e-6)))
            self.next += max(1, behind)

    def send(self, picture: int, now_ns: int) -> None:
        """Send `picture` to everybody who watches."""
        if self.frozen or (self.loss and random.random() < self.loss):
            return
        # A paired picture carries the time of the one before it.
        due_ns = self.due_ns(picture - picture % 2 if self.paired else picture)
        for outlet in self.outlets:
            outlet.send(self.clip[picture % len(self.clip)], due_ns, now_ns)
        self.sent += bool(self.outlets)


def _know_types() -> None:
    """Touch every type that media threads will: two threads that meet one for the first time can get half a class."""
    pipeline = Gst.parse_launch(f"{LAUNCH[1:-1]} ! fakesink")
    source = pipeline.get_by_name("pictures")
    for element in (pipeline, source, pipeline.get_by_name("pay0")):
        assert element.current_state == Gst.State.NULL
        assert element.get_base_time() == 0
    GstRtspServer.RTSPMedia.new(Gst.ElementFactory.make("bin")).get_element()


class Farm:
    """The server, its cameras, and the clock that all of them share."""

    def __init__(self, options: argparse.Namespace) -> None:
        Gst.init(None)
        _know_types()
        self.clips = [read_clip(path) for path in options.clip]
        self.clock = Gst.SystemClock.obtain()
        period_ns = round(1e9 / options.rate)
        self.cameras = [
            Camera(i, self.clips[0], period_ns, round(i * options.stagger_ms * 1e6)) for i in range(options.cameras)
        ]
        self.server = GstRtspServer.RTSPServer.new()
        self.server.set_address("127.0.0.1")
        self.server.set_service(str(options.port))
        pool = GstRtspServer.RTSPThreadPool.new()
        pool.set_max_threads(64)  # cameras opened side by side each need one, or they time out
        self.server.set_thread_pool(pool)
        self.mounts = self.server.get_mount_points()
        if options.password:
            self._ask_for(options.password)
        self.needs_password = bool(options.password)
        start_ns = self.clock.get_time()
        self.start_unix_ns = time.time_ns()
        self.queue: list[tuple[int, int, int]] = []
        for camera in self.cameras:
            camera.pivot = (0, start_ns + camera.offset_ns)
            heapq.heappush(self.queue, (camera.due_ns(0), camera.index, 0))
            self.mount(camera)
        self.loop = GLib.MainLoop()

    def _ask_for(self, password: str) -> None:
        auth = GstRtspServer.RTSPAuth.new()
        token = GstRtspServer.RTSPToken.new()
        token.set_string("media.factory.role", "viewer")
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic("viewer", password), token)
        self.server.set_auth(auth)

    def mount(self, camera: Camera) -> None:
        """Make the camera reachable."""
        factory = GstRtspServer.RTSPMediaFactory.new()
        factory.set_shared(False)
        factory.set_launch(LAUNCH)
        factory.connect("media-configure", self._configured, camera)
        if self.needs_password:
            factory.add_role_from_structure(
                Gst.Structure.new_from_string(
                    "viewer,media.factory.access=(boolean)true,media.factory.construct=(boolean)true"
                )
            )
        self.mounts.add_factory(f"/cam{camera.index}", factory)

    @staticmethod
    def _configured(_factory: object, media: object, camera: Camera) -> None:
        outlet = Outlet(media)
        camera.outlets = [*camera.outlets, outlet]

        def unprepared(_media: object) -> None:
            camera.outlets = [other for other in camera.outlets if other is not outlet]

        media.connect("unprepared", unprepared)

    def tick(self) -> bool:
        """Send every picture that is due."""
        now_ns = self.clock.get_time()
        while self.queue and self.queue[0][0] <= now_ns:
            _, index, picture = heapq.heappop(self.queue)
            camera = self.cameras[index]
            camera.send(picture, self.clock.get_time())
            camera.next = picture + 1
            camera.skip_to(now_ns - 2_000_000_000)  # after a stop of the whole process, do not send for minutes
            late_ns = int(random.expovariate(1 / camera.jitter_ms) * 1e6) if camera.jitter_ms else 0
            heapq.heappush(self.queue, (camera.due_ns(camera.next) + late_ns, index, camera.next))
        return True

    def kick(self, camera: Camera) -> bool:
        """Close every connection to `camera`."""
        result = GstRtspServer.RTSPFilterResult
        path = f"/cam{camera.index}"

        def judge(_server: object, client: object) -> object:
            for session in client.session_filter(lambda _client, _session: result.REF):
                for media in session.filter(lambda _session, _media: result.REF):
                    if media.matches(path)[0]:
                        return result.REMOVE
            return result.KEEP

        self.server.client_filter(judge)
        return False

    def obey(self, command: str, camera: Camera | None, value: float | None) -> object:
        """Carry out one command; return what to answer. Runs in the main loop."""
        if command == "stat":
            return [[c.sent, len(c.outlets)] for c in self.cameras]
        assert camera is not None, "this command needs a camera"
        if command == "kick":
            self.kick(camera)
        elif command == "off":
            self.mounts.remove_factory(f"/cam{camera.index}")
            self.kick(camera)
        elif command == "on":
            self.mount(camera)
        elif command in {"freeze", "thaw"}:
            camera.frozen = command == "freeze"
        elif command == "jitter":
            camera.jitter_ms = value
        elif command == "loss":
            camera.loss = value
        elif command == "skew":
            camera.set_skew(value)
        elif command == "pair":
            camera.paired = bool(value)
        elif command == "clip":
            camera.clip = self.clips[int(value)]
        else:
            raise ValueError(f"no command {command!r}")
        return "ok"

    def listen(self) -> None:
        """Take commands until the input closes."""
        for line in sys.stdin:
            words = json.loads(line)
            if words[0] == "quit":
                break
            GLib.idle_add(self._answer, words)
        GLib.idle_add(self.loop.quit)

    def _answer(self, words: list) -> bool:
        camera = self.cameras[int(words[1])] if len(words) > 1 else None
        try:
            answer = self.obey(words[0], camera, words[2] if len(words) > 2 else None)
        except Exception as error:  # noqa: BLE001 - the test reads it
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer
        return False

    def run(self) -> None:
        """Serve until told to quit."""
        self.server.attach(None)
        GLib.timeout_add(TICK_MS, self.tick)
        threading.Thread(target=self.listen, daemon=True).start()
        where = {"port": self.server.get_bound_port(), "start_unix_ns": self.start_unix_ns}
        print(json.dumps(where), flush=True)  # noqa: T201 - the first answer
        self.loop.run()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clip", nargs="+", help="files of access units; the first one is sent at first")
    parser.add_argument("--cameras", type=int, default=1)
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument(
        "--stagger-ms", type=float, default=0.0, help="how much later each camera is than the one before"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--password", default="", help="asked for, together with the name 'viewer'")
    Farm(parser.parse_args()).run()


if __name__ == "__main__":
    main()
