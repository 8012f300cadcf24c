"""Tasks fitted to the labels of a dataset: read from a table, met by the middle of spans, judged on other sources."""

import numpy as np
import pytest
from tests.index.library import span

import hyperframes as hf
from hyperframes.errors import FrameError, SourceError
from hyperframes.index import Label, fit_task, read_labels
from hyperframes.semantic import Tasks


@pytest.fixture
def library(tmp_path):
    """Ten sources of two spans: in the first of each one number is high; all others are noise."""
    index = hf.open_index(tmp_path / "library.lance")
    random = np.random.default_rng(0)
    for k in range(10):
        several = []
        for number in range(2):
            features = random.random(512, np.float32)
            features[7] = 2 * (number == 0) + 0.1 * features[7]
            several.append(span(f"videos/{k}.mp4", number, semantic_features=features))
        index.add(several)
    return index


@pytest.mark.requirement("C87", "C121")
def test_a_task_is_fitted_to_spans_by_their_middle_and_judged_on_other_sources(library):
    tasks = Tasks()
    labels = [Label(f"{k}.mp4", "high", stop_seconds=2.0) for k in range(10)]
    labels += [Label(f"videos/{k}.mp4", "low", 2.0) for k in range(9)]
    fitted = fit_task(library, "what is high", labels, tasks=tasks)
    assert fitted.labels == {"high": 10, "low": 9} or fitted.labels == {"low": 9, "high": 10}
    assert fitted.num_descriptors == 19
    assert fitted.accuracy > fitted.accuracy_unfitted
    assert fitted.accuracy > 0.9
    projection = tasks.projection("what is high")
    assert projection.version == fitted.version
    assert np.abs(projection.matrix[:, 0]).argmax() == 7
    assert not projection.zero_shot


def test_labels_of_what_is_not_there_are_refused(library):
    with pytest.raises(SourceError, match=r"label of 'none.mp4': expected one such source in .*, got 0"):
        fit_task(library, "a task", [Label("none.mp4", "high")], tasks=Tasks())
    with pytest.raises(FrameError, match="two different ones or more"):
        fit_task(library, "a task", [Label("1.mp4", "high")], tasks=Tasks())


def test_labels_are_read_from_a_table(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("file,label,start_seconds,stop_seconds\na.mp4,fall,1.5,\nb.mp4,walk,,3\n")
    assert read_labels(table) == [Label("a.mp4", "fall", 1.5), Label("b.mp4", "walk", stop_seconds=3.0)]
    table.write_text("source,label\n")
    with pytest.raises(SourceError, match="expected columns source and label, got no rows"):
        read_labels(table)
    table.write_text("source,label,start_seconds\na.mp4,fall,soon\n")
    with pytest.raises(SourceError, match="expected seconds as numbers"):
        read_labels(table)
    with pytest.raises(SourceError, match="cannot read labels"):
        read_labels(tmp_path / "none.csv")
