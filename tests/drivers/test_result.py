"""What a run returns, as people read it."""

import numpy as np

import hyperframes as hf


def test_a_result_prints_as_two_lines():
    frames = np.zeros((40, 6, 8), np.uint8)
    first, second = str(hf.run(frames, "every:n=4", size=16, workers=1)).splitlines()
    assert first.startswith("done: 40 frames to 10 results in ")
    assert first.endswith(" frames/s")
    assert second.startswith("3 hyperframes of 16 frames, halo 0 + 0, 1 worker, scheduler share ")
    assert ", peak memory " in second


def test_rows_are_called_rows_and_a_hyperframe_is_no_longer_than_the_stream():
    first, second = str(hf.run(np.zeros((10, 3)), size=64)).splitlines()
    assert first.startswith("done: 10 rows in ")
    assert second.startswith("1 hyperframe of 10 rows, ")
