"""Operators from text, classes, functions and values, and back to text."""

import dataclasses
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperframes import registry
from hyperframes.errors import PipelineError, RegistryError
from hyperframes.operators import Operator, as_text, create, operator, parameters
from hyperframes.operators.gaussian import Gaussian


@dataclass(frozen=True)
class Sample(Operator):
    """An operator of every type of parameter.

    Parameters
    ----------
    count : int
        How many,
        in all.
    """

    name: ClassVar[str] = "sample"
    count: int
    ratio: float = 0.5
    """Of the whole."""
    word: str = "a"
    loud: bool = False
    mode: Literal["one", "two", 3] = "one"
    limit: int | None = None
    weights: tuple[float, ...] = (1.0,)
    pair: tuple[int, str] = (1, "x")
    either: str | tuple[float, ...] = "named"

    def configure(self, inputs):
        raise NotImplementedError

    def apply(self, inputs, outputs, state, prepared):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(registry.operators._registered, "sample", Sample)


@operator(halo=1)
def mean3(frames):
    return (frames[:-2] + frames[1:-1] + frames[2:]) / 3


def plain(frames):
    return frames


def test_text_gives_every_type_of_parameter():
    text = "sample:count=3,ratio=2,word=b c,loud=yes,mode=3,limit=none,weights=1/-2.5/3e2,pair=7 y,either=0/1"
    assert create(text) == Sample(3, 2.0, "b c", True, 3, None, (1.0, -2.5, 300.0), (7, "y"), (0.0, 1.0))
    assert isinstance(create("sample:count=1,ratio=2").ratio, float)
    assert create("sample:count=1,limit=9,either=sharp") == Sample(1, limit=9, either="sharp")


def test_values_are_taken_like_text():
    given = {"count": 2, "ratio": 1, "weights": [1, 2], "loud": True, "mode": 3}
    assert create("sample:ratio=4", parameters=given) == Sample(2, 4.0, loud=True, mode=3, weights=(1.0, 2.0))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sample:count=many", "operator 'sample': expected int for count, got 'many'"),
        ("sample:count=1.5", "operator 'sample': expected int for count, got '1.5'"),
        ("sample:count=1,ratio=half", "operator 'sample': expected float for ratio, got 'half'"),
        ("sample:count=1,loud=maybe", "operator 'sample': expected bool for loud, got 'maybe'"),
        ("sample:count=1,mode=four", "operator 'sample': expected one | two | 3 for mode, got 'four'"),
        ("sample:count=1,limit=some", "operator 'sample': expected int or none for limit, got 'some'"),
        ("sample:count=1,weights=1/b", "operator 'sample': expected tuple of float for weights, got '1/b'"),
        ("sample:count=1,pair=1", "operator 'sample': expected (int, str) for pair, got '1'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(text, sentence):
    with pytest.raises(PipelineError, match=f"^{re.escape(sentence)}$") as caught:
        create(text)
    assert caught.value.hint == "See its parameters: hyperframes operators sample"


@pytest.mark.parametrize("value", [True, 1.5, [1], None])
def test_a_python_value_of_the_wrong_type_is_refused(value):
    with pytest.raises(PipelineError, match="expected int for count, got"):
        create("sample", parameters={"count": value})


def test_an_unknown_parameter_lists_the_known_ones_and_the_nearest():
    with pytest.raises(
        PipelineError, match=r"operator 'gaussian' has no parameter 'sigm': expected one of sigma$"
    ) as e:
        create("gaussian:sigm=2")
    assert e.value.hint == "Did you mean 'sigma'?"
    with pytest.raises(PipelineError) as e:
        create("gaussian:zzz=2")
    assert e.value.hint == "See its parameters: hyperframes operators gaussian"


def test_missing_parameters_are_named():
    with pytest.raises(PipelineError, match="operator 'sample' needs count: got no parameters") as caught:
        create("sample")
    assert caught.value.hint == "For example: --operator sample:count=..."


def test_an_unknown_operator_lists_the_nearest():
    with pytest.raises(RegistryError, match="no operator named 'gausian'; known: ") as caught:
        create("gausian:sigma=2")
    assert caught.value.hint == "Did you mean 'gaussian'?"
    with pytest.raises(RegistryError, match=r"no operator named 'no\.such\.module'"):
        create("no.such.module")
    with pytest.raises(RegistryError, match=r"no operator named 'math\.nothing'"):
        create("math.nothing")


def test_an_operator_stays_itself_and_a_class_is_made_with_its_defaults():
    blur = Gaussian(2.0)
    assert create(blur) is blur
    assert create(Gaussian) == Gaussian()
    assert create(Gaussian, parameters={"sigma": 3}) == Gaussian(3.0)


def test_functions_become_operators():
    assert create(mean3) is mean3
    made = create(plain, name="same")
    assert (made.name, made(3)) == ("same", 3)
    with pytest.raises(PipelineError, match="takes no parameters: got radius"):
        create(mean3, parameters={"radius": 1})


def test_what_is_no_operator_is_refused():
    with pytest.raises(PipelineError, match="expected an operator, its name or a function over frames, got a int"):
        create(3)
    with pytest.raises(PipelineError, match="got the class dict"):
        create(dict)


def test_parameters_say_type_default_and_help():
    found = {p.name: p for p in parameters(Sample)}
    assert list(found) == [f.name for f in dataclasses.fields(Sample)]
    assert found["count"][1:] == ("int", dataclasses.MISSING, "How many, in all.")
    assert found["ratio"][1:] == ("float", 0.5, "Of the whole.")
    assert [found[k].type for k in ("mode", "limit", "weights", "pair", "either")] == [
        "one | two | 3",
        "int or none",
        "tuple of float",
        "(int, str)",
        "str or tuple of float",
    ]
    assert parameters(mean3) == []
    assert parameters(Sample(1)) == parameters(Sample)


def test_every_parameter_of_every_operator_has_help():
    missing = [
        f"{name}.{parameter.name}"
        for name in registry.operators
        if name != "sample"
        for parameter in parameters(registry.operators.get(name))
        if not parameter.help
    ]
    assert not missing


@given(
    st.builds(
        Sample,
        st.integers(),
        st.floats(allow_nan=False),
        st.text("abc.-_ ", min_size=1).map(str.strip).filter(bool),
        st.booleans(),
        st.sampled_from(["one", "two", 3]),
        st.none() | st.integers(),
        st.lists(st.floats(allow_nan=False), min_size=1).map(tuple),
        st.tuples(st.integers(), st.text("xyz", min_size=1)),
    )
)
def test_text_brings_every_value_back(sample):
    assert create(as_text(sample)) == sample


def test_text_leaves_defaults_out_and_keeps_the_order_of_the_constructor():
    assert as_text(create("crop:height=4,x=0,width=2")) == "crop:width=2,height=4"
    assert as_text(Gaussian()) == "gaussian"
    assert as_text(Gaussian(np.float64(2))) == "gaussian:sigma=2.0"
    assert as_text(mean3).endswith("test_create.mean3")


def test_a_value_without_text_is_refused():
    with pytest.raises(PipelineError, match="operator 'sample': word cannot be written as text"):
        as_text(Sample(1, word="a,b"))
    with pytest.raises(PipelineError, match="pair cannot be written as text"):
        as_text(Sample(1, pair=(np.zeros(2), "a")))


def test_a_dotted_name_finds_an_importable_function(tmp_path, monkeypatch):
    (tmp_path / "my_filters.py").write_text(
        "import hyperframes.operators as o\n@o.operator(halo=2)\ndef last(frames):\n    return frames[4:]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = create("my_filters.last")
    assert (made.halo.before, as_text(made)) == (2, "my_filters.last")
    (tmp_path / "broken_filters.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        create("broken_filters.last")
