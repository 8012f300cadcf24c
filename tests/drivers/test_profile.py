"""Saved tuning: kept, found again, and never believed when it is about something else."""

import dataclasses
import json
import os

import numpy as np
import pytest

import hyperframes as hf
from hyperframes.drivers import profile, set_up
from hyperframes.drivers.profile import (
    Costs,
    Found,
    Profile,
    cache_folder,
    find_profile,
    profile_key,
    profile_path,
    save_profile,
    tuned_size,
)
from hyperframes.frames import FrameSpec
from hyperframes.pipeline import Pipeline
from hyperframes.scheduling.sizing import best_size, sweep_sizes

FRAMES = np.zeros((400, 6, 8), np.uint8)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERFRAMES_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pipeline_of(chain="temporal_mean:radius=2", frames=FRAMES, **options):
    return Pipeline.of(frames, chain, **options)


def key_of(chain="temporal_mean:radius=2", frames=FRAMES, **options):
    return profile_key(pipeline_of(chain, **options), FrameSpec.array(frames.shape[1:], frames.dtype))


def profile_of(key=None, **changes):
    values = {
        "key": key or key_of(),
        "created": "2026-03-05T10:00:00+00:00",
        "size": 24,
        "workers": 2,
        "frames_per_second": 900.0,
        "knees": {1: 16, 2: 24},
        "rates": {1: 500.0, 2: 900.0},
        "costs": {1: Costs(0.002, 0.003), 2: Costs(0.004, 0.003)},
        "halo": (2, 2),
        "frame_bytes": 48,
        "bandwidth": 20e9,
        "layout": "NHWC",
    }
    return Profile(**{**values, **changes})


def test_a_profile_is_found_again_as_it_was_saved(cache):
    path = save_profile(profile_of())
    assert path.parent == cache / "profiles"
    assert find_profile(key_of()) == Found(profile_of(), None, ())
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing unfinished beside it


def test_a_newer_profile_replaces_the_older():
    save_profile(profile_of())
    save_profile(profile_of(size=32))
    assert find_profile(key_of()).profile.size == 32


@pytest.mark.parametrize(
    "other",
    [
        key_of("temporal_mean:radius=3"),
        key_of(["temporal_mean:radius=2", "gaussian"]),
        key_of(boundary="reflect"),
        key_of(pixel_format="rgb24"),
        dataclasses.replace(key_of(), machine="another processor, 64 cores"),
    ],
    ids=["parameters", "chain", "boundary", "format", "machine"],
)
def test_another_chain_or_machine_has_no_profile(other):
    save_profile(profile_of(other))
    assert find_profile(key_of()) == Found()


def test_a_profile_of_another_version_is_not_used_and_that_is_said():
    save_profile(profile_of(dataclasses.replace(key_of(), release="0.0.1")))
    assert find_profile(key_of()) == Found(
        None,
        None,
        ("the tuning of 2026-03-05 was measured with version 0.0.1 and is not used: run 'hyperframes tune' again",),
    )


def test_frames_of_another_size_lend_their_costs_only():
    larger = np.zeros((5, 12, 16), np.uint8)
    save_profile(profile_of(key_of(frames=larger), frame_bytes=192))
    found = find_profile(key_of())
    assert found.profile is None
    assert found.related.frame_bytes == 192


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected format 2, got []"),
        ('{"format": 99}', "expected format 2, got 99"),
        ('{"format": 2}', "KeyError: 'key'"),
        (json.dumps({**profile_of().to_json(), "size": 0}), "a size below 1 or a time below 0"),
        (json.dumps({**profile_of().to_json(), "bandwidth": -1}), "a size below 1 or a time below 0"),
        (json.dumps({**profile_of().to_json(), "costs": {}}), "a size below 1 or a time below 0"),
        (json.dumps({**profile_of().to_json(), "knees": "many"}), "AttributeError"),
    ],
)
def test_a_file_that_cannot_be_used_is_ignored_with_a_warning(text, said):
    path = save_profile(profile_of())
    path.write_text(text)
    found = find_profile(key_of())
    assert found.profile is None
    (warning,) = found.warnings
    assert warning.startswith(f"the saved tuning {path} cannot be used and is ignored: ")
    assert said in warning


def test_a_run_over_a_broken_profile_warns_and_goes_on():
    path = save_profile(profile_of())
    path.write_bytes(b"\xff\xfe")
    result = hf.run(FRAMES[:8], "temporal_mean:radius=2")
    assert result.frames_out == 8
    assert any("cannot be used and is ignored" in warning for warning in result.warnings)


def test_a_save_that_fails_leaves_the_old_profile_whole(monkeypatch):
    save_profile(profile_of())

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        save_profile(profile_of(size=32))
    assert find_profile(key_of()).profile.size == 24
    assert len(list(profile_path(key_of()).parent.iterdir())) == 1


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("HYPERFRAMES_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/hyperframes"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/people/me")
    assert str(cache_folder()) == "/people/me/.cache/hyperframes"


# What it means for a run ----------------------------------------------------------------------------------------------


def sized(found, *, workers=2, parallel=2, num_frames=10_000, frame_bytes=48):
    return tuned_size(found, frame_bytes=frame_bytes, workers=workers, parallel=parallel, num_frames=num_frames, halo=4)


def test_the_knee_for_as_many_workers_is_taken():
    choice = sized(Found(profile_of()), workers=1, parallel=1)
    assert choice.size == 16
    assert choice.reasons[0] == "tuned on 2026-03-05 with 1 worker: 500 frames/s"


@pytest.mark.requirement("A32")
def test_the_formula_is_told_as_a_starting_point_beside_the_costs():
    full_hd = profile_of(frame_bytes=1920 * 1080 * 3 * 4, costs={2: Costs(0.001, 0.003)})
    _, costs, formula = sized(Found(full_hd), frame_bytes=1920 * 1080 * 3 * 4).reasons
    assert costs == "a hyperframe costs 1 ms whatever its size and 3 ms a frame"
    assert formula == (
        "the formula sqrt(2 * t * bandwidth / bytes) would start at 2.2: t = 3 ms, 20 GB/s, 24.9 MB a frame; "
        "it counts no fixed cost and predicts nothing"
    )


@pytest.mark.requirement("W3")
def test_other_workers_get_the_size_of_the_model():
    choice = sized(Found(profile_of()), workers=8, parallel=8, num_frames=18_000)
    candidates = [size for size in sweep_sizes(48) if size <= 18_000 // 8]
    assert candidates[-1] == 1024
    assert choice.size == best_size(18_000, 8, 0.004, 0.003, 4, candidates=candidates)
    assert choice.reasons[0] == (
        "shortest makespan by the model for 18,000 frames on 8 workers, with costs measured on 2026-03-05"
    )


def test_a_stream_too_short_for_the_knee_is_shared_by_the_model():
    choice = sized(Found(profile_of()), num_frames=40)
    assert choice.reasons[0].startswith("shortest makespan by the model for 40 frames on 2 workers")
    assert choice.size <= 20


def test_a_stream_of_unknown_length_takes_the_knee():
    assert sized(Found(profile_of()), num_frames=None).size == 24
    other = sized(Found(profile_of()), workers=3, parallel=3, num_frames=None)
    assert other.reasons[0].startswith("shortest makespan by the model for a long stream on 3 workers")


def test_costs_of_other_frames_grow_with_the_bytes():
    choice = sized(Found(None, profile_of()), frame_bytes=480)
    assert choice.reasons[0].endswith("with costs measured on 2026-03-05 over frames of 48 B")
    assert choice.reasons[1] == "a hyperframe costs 4 ms whatever its size and 30 ms a frame"


def test_without_measurements_there_is_no_tuned_size():
    assert sized(Found()) is None


def test_auto_starts_from_the_profile_and_a_size_asked_for_does_not():
    save_profile(profile_of(knees={1: 20}, rates={1: 1.0}))
    setup = set_up(pipeline_of(workers=1))
    assert setup.size == 20
    assert setup.size_reasons[0] == "tuned on 2026-03-05 with 1 worker: 1 frames/s"
    assert set_up(pipeline_of(size=7)).size == 7
    small = set_up(pipeline_of(workers=1, max_memory=700))
    assert small.size < 20
    assert any("is what fits in the memory allowed" in reason for reason in small.size_reasons)


def test_results_do_not_depend_on_the_profile():
    frames = np.random.default_rng(0).integers(0, 255, (60, 6, 8), np.uint8)
    before = hf.run(frames, "temporal_mean:radius=2").array
    knees = dict.fromkeys(range(1, 65), 5)
    save_profile(profile_of(knees=knees, rates=dict.fromkeys(knees, 1.0)))
    after = hf.run(frames, "temporal_mean:radius=2")
    assert after.size == 5
    assert (after.array == before).all()
    assert profile.FORMAT == 2


COLOURS = np.random.default_rng(1).integers(0, 255, (40, 6, 8, 3), np.uint8)


def _worked_in(frames=COLOURS, chain="temporal_median:radius=2", **options):
    setup = set_up(Pipeline.of(frames, chain, to="null:", **options))
    setup.close()
    return list(setup.plan.conversions), setup.plan.fingerprint


def _tuned_to(layout, chain="temporal_median:radius=2"):
    save_profile(profile_of(profile_key(Pipeline.of(COLOURS, chain), hf.open(COLOURS).spec), layout=layout))


def test_a_run_works_in_the_layout_that_was_tuned_and_returns_the_same():
    before, plain = hf.run(COLOURS, "temporal_median:radius=2").value, _worked_in()
    assert plain[0] == []
    _tuned_to("NCHW")
    assert _worked_in() == (["source->NCHW", "temporal_median->NHWC"], plain[1])  # a journal knows it by the same name
    after = hf.run(COLOURS, "temporal_median:radius=2").value
    assert after.spec == before.spec
    assert after.data.tobytes() == before.data.tobytes()


@pytest.mark.parametrize(
    "options", [{"layout": "NHWC"}, {"work_layout": "NHWC"}, {"size": 8}, {"frame_dependency": "sequential"}]
)
def test_the_tuned_layout_gives_way_to_what_is_asked_for(options):
    plain = _worked_in(**options)
    _tuned_to("NCHW")
    assert _worked_in(**options) == plain


def test_a_tuned_layout_that_the_chain_refuses_is_left_alone():
    _tuned_to("NCHW", "stabilize")
    assert _worked_in(chain="stabilize")[0] == _worked_in(chain="stabilize", work_layout="NHWC")[0]
