"""OpenCV: VideoCapture and NumPy, as most scripts do it, and with its own accumulation, which is faster."""

from collections import deque

from measure import Case


def contest(workload, inputs):
    """Return the cases of a workload."""
    if workload == "file_rgb":
        return {
            "OpenCV + NumPy mean": Case(
                lambda: count(numpy_means(inputs.clip)), lambda: turned(numpy_means(inputs.clip))
            ),
            "OpenCV + accumulate": Case(
                lambda: count(accumulated(inputs.clip)), lambda: turned(accumulated(inputs.clip))
            ),
        }
    if workload == "peak_memory":
        return {"OpenCV + NumPy mean, RGB": Case(lambda: count(numpy_means(inputs.clip)))}
    if workload in inputs.odd:
        return {"OpenCV": Case(None, lambda: turned(every_seventh(inputs.odd[workload])))}
    return {}


def count(frames):
    return sum(1 for _ in frames)


def turned(frames):
    """Yield BGR frames as RGB."""
    for frame in frames:
        yield frame[..., ::-1].copy()


def decoded(path):
    import cv2

    capture = cv2.VideoCapture(path)
    while True:
        ok, frame = capture.read()
        if not ok:
            return
        yield frame


def windows(frames, radius=2):
    """Yield windows of frames, the ends repeated."""
    held = deque(maxlen=2 * radius + 1)
    for frame in frames:
        if not held:
            held.extend([frame] * radius)
        held.append(frame)
        if len(held) == held.maxlen:
            yield held
    for _ in range(radius):
        held.append(held[-1])
        yield held


def numpy_means(path):
    import numpy as np

    for window in windows(decoded(path)):
        yield np.mean(window, axis=0).astype(np.uint8)


def accumulated(path):
    import cv2
    import numpy as np

    total = out = None
    for window in windows(decoded(path)):
        if total is None:
            total, out = np.zeros(window[0].shape, np.float32), np.empty_like(window[0])
        total[:] = 0
        for frame in window:
            cv2.accumulate(frame, total)
        cv2.convertScaleAbs(total, out, 0.2, 0)
        yield out


def every_seventh(path):
    import cv2

    capture = cv2.VideoCapture(path)
    for position in range(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 7):
        capture.set(cv2.CAP_PROP_POS_FRAMES, position)
        ok, frame = capture.read()
        if not ok:
            return
        yield frame
