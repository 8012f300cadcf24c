"""What the machine gives the process, read from made-up trees of /proc and /sys."""

import os

import pytest

from hyperframes.drivers import machine
from hyperframes.drivers.machine import (
    ProcessRoom,
    allowed_cpus,
    cache_share,
    cpu_list,
    numa_nodes,
    own_cache,
    processor_name,
)


def tree(root, files):
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def test_the_machine_at_hand_has_cores_and_memory():
    facts = machine.machine_facts()
    assert 1 <= facts.cores <= facts.physical <= facts.logical
    assert machine.available_memory() > 0


@pytest.mark.requirement("A44")
def test_two_hardware_threads_of_one_core_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4}, raising=False)
    siblings = {0: "0,4", 1: "1,5", 4: "0,4"}
    tree(tmp_path, {f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": s for n, s in siblings.items()})
    assert machine.machine_facts(tmp_path).affinity == 2


def test_the_tightest_limit_of_the_groups_around_counts(tmp_path):
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pod/box/memory.max": "1000000\n",
            "sys/fs/cgroup/pod/box/memory.current": "700000\n",
            "sys/fs/cgroup/pod/box/memory.stat": "anon 1\ninactive_file 200000\n",
            "sys/fs/cgroup/pod/memory.max": "max\n",
        },
    )
    assert machine.cpu_quota(tmp_path) == 1.5
    assert machine.memory_limit(tmp_path) == 1_000_000
    assert machine.available_memory(tmp_path) == 500_000


def test_limits_of_old_control_groups_are_read(tmp_path):
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "9:cpu,cpuacct:/box\n4:memory:/box\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "4096\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "96\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert machine.cpu_quota(tmp_path) == 0.5
    assert machine.memory_limit(tmp_path) == 4096
    assert machine.available_memory(tmp_path) == 4000


def test_in_a_container_the_mount_stands_for_a_path_that_is_not_there(tmp_path):
    tree(tmp_path, {"proc/self/cgroup": "0::/docker/abc\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert machine.cpu_quota(tmp_path) == 2.0


def test_without_control_groups_there_is_no_limit(tmp_path):
    assert machine.cpu_quota(tmp_path) is None
    assert machine.memory_limit(tmp_path) is None


@pytest.mark.requirement("A78")
def test_the_tighter_of_user_and_container_limit_bounds_the_threads(tmp_path, monkeypatch):
    tree(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/pids.max": "64\n", "sys/fs/cgroup/pids.current": "60\n"},
    )
    monkeypatch.setattr(machine, "_soft_limit", lambda: 1000)
    monkeypatch.setattr(machine, "_threads_of_user", lambda: 10)
    assert machine.process_room(tmp_path) == ProcessRoom(60, 64)
    assert machine.check_process_limit(4, tmp_path) is None
    assert "this run starts 5 threads, but only 4 more are allowed (60 of 64 in use)" in machine.check_process_limit(
        5, tmp_path
    )


def test_threads_of_this_process_count_as_the_users():
    assert machine._threads_of_user() >= 1


@pytest.mark.requirement("A49")
def test_memory_nodes_are_read_with_their_cpus(tmp_path):
    for node, cpus in (("node1", "4-7\n"), ("node0", "0-3,8\n"), ("node2", "\n")):
        folder = tmp_path / "sys/devices/system/node" / node
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus)
    assert numa_nodes(tmp_path) == {0: [0, 1, 2, 3, 8], 1: [4, 5, 6, 7]}  # a node of memory alone runs nothing


def test_where_no_nodes_are_shown_there_is_one(tmp_path):
    (nodes,) = numa_nodes(tmp_path).items()
    assert nodes[0] == 0
    assert nodes[1]


def test_lists_of_cpus_read_as_taskset_takes_them():
    assert cpu_list([8, 0, 1, 2, 3]) == "0-3,8"
    assert cpu_list([]) == ""


def test_the_processor_has_a_name_and_cpus_are_allowed():
    assert processor_name()
    assert allowed_cpus() == sorted(set(allowed_cpus()))


def test_the_share_of_a_cache_is_what_one_core_has_of_the_largest(tmp_path):
    assert cache_share(tmp_path) == 1 << 20  # the system tells nothing
    for number, (size, sharing) in enumerate([("32K", "0"), ("1024K", "0"), ("32768K", "0-3,8-11")]):
        folder = tmp_path / f"told/sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(size)
        (folder / "shared_cpu_list").write_text(sharing)
    assert cache_share(tmp_path / "told") == 4 << 20


def test_a_core_s_own_cache_is_its_share_of_the_second_level(tmp_path):
    assert own_cache(tmp_path) == 1 << 20  # the system tells nothing
    for number, (level, size, sharing) in enumerate([(1, "48K", "0"), (2, "2048K", "0,8"), (3, "32768K", "0-3,8-11")]):
        folder = tmp_path / f"told/sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        for name, value in (("level", str(level)), ("size", size), ("shared_cpu_list", sharing)):
            (folder / name).write_text(value)
    assert own_cache(tmp_path / "told") == 1 << 20
