"""What operators may rely on when they write their outputs."""

from fractions import Fraction

import numpy as np

from hyperframes.frames import Field, RecordSpec
from hyperframes.operators import Output, View


def test_rows_keep_their_values_when_the_frames_they_were_cut_from_are_used_again():
    spec = RecordSpec((Field("corner", np.dtype(np.uint8), (2,)),), Fraction(1, 25))
    view = View(Output("rows", "records", spec), 0, 1)
    frame = np.arange(6, dtype=np.uint8)
    view.add(0, corner=frame[None, 2:4])
    frame[:] = 0
    ((_, _, columns, _),) = view.rows
    assert columns["corner"].tolist() == [[2, 3]]
