import pytest

from hyperframes.errors import PipelineError
from hyperframes.scheduling.resources import MachineFacts, process_limit_warning, worker_counts, workers_for

EIGHT = MachineFacts(physical=8, logical=16, affinity=8)


@pytest.mark.requirement("A44")
def test_workers_are_the_physical_cores_that_may_be_used():
    assert EIGHT.cores == 8
    assert MachineFacts(8, 16, affinity=3).cores == 3
    assert MachineFacts(8, 16, affinity=8, quota=2.5).cores == 3
    assert MachineFacts(8, 16, affinity=8, quota=0.2).cores == 1


@pytest.mark.requirement("X18")
@pytest.mark.requirement("A45")
@pytest.mark.requirement("A47")
@pytest.mark.requirement("A48")
def test_each_resource_has_its_number_of_workers():
    counts, warnings = worker_counts(EIGHT, ["compute", "memory", "io", "device:cuda:0"])
    assert counts == {"compute": 8, "memory": 4, "io": 10, "device:cuda:0": 1}
    assert warnings == ()


@pytest.mark.requirement("A45")
def test_io_workers_are_1_2_to_1_5_times_the_cores():
    assert all(1.2 <= workers_for("io", cores) / cores <= 1.5 for cores in range(4, 65))


@pytest.mark.requirement("A48")
def test_one_core_still_gets_a_memory_worker_and_one_that_waits():
    assert worker_counts(MachineFacts(1, 1, 1), ["memory", "io"])[0] == {"memory": 1, "io": 2}


@pytest.mark.requirement("A46")
def test_more_than_twice_the_cores_is_cut_with_a_warning():
    counts, warnings = worker_counts(EIGHT, ["compute", "io"], 40)
    assert counts == {"compute": 16, "io": 16}
    assert warnings == ("40 workers are more than twice the 8 cores of this machine: 16 are used",)
    assert worker_counts(MachineFacts(1, 2, 1), workers=3)[1] == (
        "3 workers are more than twice the one core of this machine: 2 are used",
    )


def test_the_number_asked_for_is_taken_up_to_twice_the_cores():
    assert worker_counts(EIGHT, workers=16) == ({"compute": 16}, ())
    assert worker_counts(EIGHT, workers=1) == ({"compute": 1}, ())


@pytest.mark.parametrize("workers", [0, -1, "many"])
def test_a_wrong_number_of_workers_is_named(workers):
    with pytest.raises(PipelineError, match=rf"^workers: expected auto or a number of at least 1, got {workers!r}$"):
        worker_counts(EIGHT, workers=workers)


def test_an_unknown_resource_is_named():
    with pytest.raises(PipelineError, match=r"^unknown resource 'gpu': expected compute, memory, io or device:NAME$"):
        worker_counts(EIGHT, ["gpu"])


@pytest.mark.requirement("A78")
def test_a_run_that_does_not_fit_under_the_thread_limit_is_told():
    assert process_limit_warning(needed=10, used=90, limit=100) is None
    assert process_limit_warning(needed=10, used=90, limit=None) is None
    assert process_limit_warning(needed=11, used=90, limit=100) == (
        "this run starts 11 threads, but only 10 more are allowed (90 of 100 in use): "
        "use fewer --workers, or raise the limit with ulimit -u"
    )
