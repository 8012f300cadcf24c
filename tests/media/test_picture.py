"""Pictures of a decoder on their way into memory of ours."""

import av
import numpy as np
import pytest

from hyperframes.frames import FrameSpec
from hyperframes.media.picture import Lender


def decoded(name, height, width):
    """Return a frame of noise, whose rows FFmpeg pads."""
    frame = av.VideoFrame(width, height, name)
    rng = np.random.default_rng(height * width)
    for plane in frame.planes:
        plane.update(rng.integers(0, 256, plane.buffer_size, np.uint8).tobytes())
    return frame


@pytest.mark.parametrize("name", ["yuv420p", "yuvj420p", "gray", "yuv420p10le", "rgb24"])
@pytest.mark.parametrize(("height", "width"), [(6, 10), (240, 318), (480, 640)])
def test_a_copy_of_a_frame_is_what_is_lent_of_it(name, height, width):
    frame = decoded(name, height, width)
    spec = FrameSpec.picture(height, width, name.replace("yuvj", "yuv"))
    lender = Lender(spec, frame)
    slot = tuple(np.empty(shape, spec.dtype) for shape in spec.shapes)
    lender.copy(frame, slot)
    for made, lent in zip(slot, lender(frame), strict=True):
        np.testing.assert_array_equal(made, lent)


def test_a_copy_to_another_format_is_converted():
    frame = decoded("yuv420p", 24, 32)
    spec = FrameSpec.picture(24, 32, "rgb24")
    lender = Lender(spec, frame)
    slot = (np.empty((24, 32, 3), np.uint8),)
    lender.copy(frame, slot)
    np.testing.assert_array_equal(slot[0], lender(frame)[0])
