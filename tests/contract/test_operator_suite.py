"""The suite for operator authors catches what it says it catches: one broken operator for each rule."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from hyperframes.frames import Field, FrameSpec, RecordSpec
from hyperframes.operators import Contract, Operator, Output, frames_out
from hyperframes.packing import Halo
from hyperframes.testing.operators import OperatorSuite, run_split

SPEC = FrameSpec.array((4,), np.int16)


@dataclass(frozen=True)
class Copy(Operator):
    """Copy frames: any shape, any dtype, no halo."""

    name: ClassVar[str] = "copy"

    def configure(self, inputs):
        return Contract((frames_out(inputs),))

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[:] = inputs[0].core_data


class Lazy(Copy):
    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[1:] = inputs[0].core_data[1:]


class SizeBound(Copy):
    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[:] = inputs[0].core_data - inputs[0].core_data[0]


class Remembering(Copy):
    """It keeps what it saw last in a table of its module, not in a state."""

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[:] = inputs[0].core_data - KEPT.get("last", 0)
        KEPT["last"] = inputs[0].core_data[-1].copy()


KEPT = {}


class InPlace(Copy):
    def apply(self, inputs, outputs, state, prepared):
        inputs[0].data[:] += 1


class Forgetful(Copy):
    def configure(self, inputs):
        return Contract((frames_out(inputs),), dependency="sequential")


class Amnesiac(Forgetful):
    """Its state is changed in place."""

    def apply(self, inputs, outputs, state, prepared):
        state = state or {"sum": np.zeros(4, np.int64)}
        state["sum"] += inputs[0].core_data.sum(axis=0)
        outputs[0].data[:] = inputs[0].core_data
        return state


class Hoarder(Forgetful):
    """Its state cannot be saved."""

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[:] = inputs[0].core_data
        return {"frames": list(inputs[0].core_data)}


class Overreaching(Copy):
    """It records frames that it does not own."""

    def configure(self, inputs):
        records = RecordSpec((Field("level", "f8"),))
        return Contract((Output("records", "records", records),), Halo(1, 0))

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].add(inputs[0].header.core[0] - 1, level=0.0)


class Greedy(Copy):
    """It splits pixels and lets each part write all of them, adding up."""

    def apply(self, inputs, outputs, state, prepared):
        outputs[0].data[:] = 0

        def part(start, stop):
            outputs[0].data[:] += inputs[0].core_data

        prepared.split(4, part)


class Undescribed(Copy):
    """Copy."""


def _suite(kind):
    suite = type("Suite", (OperatorSuite,), {"operators": (kind(),), "specs": (SPEC,)})
    return suite()


@pytest.mark.parametrize("check", [name for name in vars(OperatorSuite) if name.startswith("test_")])
def test_an_operator_that_keeps_to_the_rules_passes(check):
    getattr(_suite(Copy), check)()


@pytest.mark.requirement("A75")
@pytest.mark.parametrize(
    ("kind", "check", "message"),
    [
        (Lazy, "every_output_is_written", "frames, plane 0"),
        (SizeBound, "many_hyperframes_give_what_one_gives", "frames, plane 0"),
        (Remembering, "many_hyperframes_give_what_one_gives", "frames, plane 0"),
        (InPlace, "frames_read_are_not_written", "read-only"),
        (Forgetful, "every_output_is_written", "a sequential operator returns its state"),
        (Amnesiac, "many_hyperframes_give_what_one_gives", "read-only"),
        (Hoarder, "every_output_is_written", "arrays and numbers only"),
        (Overreaching, "every_output_is_written", "records belong to frames of the core"),
        (Greedy, "splitting_the_pixels_over_workers_changes_nothing", "frames, plane 0"),
        (Undescribed, "the_docstring_says_shapes_dtype_and_halo", "says nothing about: shape, dtype, halo"),
    ],
)
def test_an_operator_that_breaks_a_rule_fails_the_check_for_it(kind, check, message):
    with pytest.raises(Exception, match=message):
        getattr(_suite(kind), f"test_{check}")()


def test_parameters_that_are_accepted_though_they_should_not_be_are_found():
    suite = _suite(Copy)
    suite.refused = ({},)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        suite.test_wrong_parameters_are_refused_by_name_before_the_first_frame()


@dataclass(frozen=True)
class Half(Operator):
    """Every second frame."""

    name: ClassVar[str] = "half"

    def configure(self, inputs):
        (spec,) = inputs
        return Contract((Output("frames", "frames", spec, ratio=Fraction(1, 2)),))

    def apply(self, inputs, outputs, state, prepared):
        first = 2 * outputs[0].start - inputs[0].header.core[0]
        outputs[0].data[:] = inputs[0].core_data[first::2]
        outputs[0].keep(outputs[0].data[:, 0] != 4)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_runner_counts_outputs_over_the_stream_and_leaves_out_what_is_not_kept(size):
    rows = np.arange(7, dtype=np.int16)[:, None]
    got = run_split(Half(), [rows], 100 + 10 * np.arange(7), FrameSpec.array((1,), np.int16), size=size)["frames"]
    assert got.data.ravel().tolist() == [0, 2, 6]
    assert got.index.tolist() == [0, 1, 3]
    assert got.pts.tolist() == [100, 120, 160]
