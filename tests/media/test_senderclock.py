"""Capture times out of reference times that packets carry."""

import struct
from fractions import Fraction

from av.packet import Packet

from hyperframes.media.senderclock import SenderClock

TICK = Fraction(1, 90_000)


def test_a_frame_has_the_time_of_the_packet_of_its_pts():
    clock = SenderClock(TICK)
    assert clock.capture_ns(0) is None
    assert not clock.known
    clock.note(3000, 1_000_000_000)
    clock.note(6000, 1_040_000_000)
    assert clock.known
    assert clock.capture_ns(3000) == 1_000_000_000
    assert clock.capture_ns(6000) == 1_040_000_000


def test_a_frame_whose_packet_had_none_is_placed_by_the_last_that_had():
    clock = SenderClock(TICK)
    clock.note(90_000, 5_000_000_000)
    assert clock.capture_ns(180_000) == 6_000_000_000
    assert clock.capture_ns(45_000) == 4_500_000_000


def test_a_frame_without_pts_has_the_time_of_the_frame_before_it():
    clock = SenderClock(TICK)
    assert clock.capture_ns(None) is None
    clock.note(90_000, 5_000_000_000)
    assert clock.capture_ns(None) == 5_000_000_000
    assert clock.capture_ns(180_000) == 6_000_000_000
    assert clock.capture_ns(None) == 6_000_000_000


def test_of_two_packets_with_one_pts_the_later_says_the_time():
    clock = SenderClock(TICK)
    clock.note(0, 10)
    clock.note(0, 20)
    assert clock.capture_ns(0) == 20


def test_only_so_many_times_are_remembered():
    clock = SenderClock(TICK)
    for k in range(10_000):
        clock.note(k, k)
    assert len(clock._known) == 64


class Reporting:
    """A packet with a reference time; PyAV can read them but not make them."""

    def __init__(self, pts, unix_us):
        self.pts, self._data = pts, struct.pack("<qi4x", unix_us, 24)

    def has_sidedata(self, kind):
        return kind == "prft"

    def get_sidedata(self, kind):
        return self._data


def test_the_first_reference_time_belongs_to_the_next_packet_and_is_not_taken():
    clock = SenderClock(TICK)
    clock.packet(Reporting(0, 40_000))
    assert not clock.known
    clock.packet(Reporting(3600, 40_000))
    assert clock.capture_ns(3600) == 40_000_000
    assert clock.capture_ns(0) == 0


def test_packets_without_pts_or_without_a_reference_time_say_nothing():
    clock = SenderClock(TICK)
    packet = Packet(b"\0\0")
    clock.packet(packet)
    packet.pts = 7
    clock.packet(packet)
    assert not clock.known


def test_packets_that_come_evenly_are_looked_into_now_and_then_and_all_others_at_once():
    clock, looked = SenderClock(TICK), []

    class Counted(Reporting):
        def get_sidedata(self, kind):
            looked.append(self.pts)
            return super().get_sidedata(kind)

    for k in range(33):
        clock.packet(Counted(3000 * k, 40_000 + k * 33_333))
        assert k == 0 or abs(clock.capture_ns(3000 * k) - (40_000_000 + k * 33_333_333)) < 20_000
    assert len(looked) == 4
    for k in (40, 41):  # a step: the sender's times may have been set
        clock.packet(Counted(3000 * k, 9_000_000 + k * 33_333))
    assert abs(clock.capture_ns(3000 * 41) - (9_000_000_000 + 41 * 33_333_333)) < 20_000


def test_a_reference_time_that_belongs_to_the_next_packet_moves_nothing():
    clock = SenderClock(TICK)
    for k in range(60):
        of = k + 1 if k % 11 == 0 else k
        clock.packet(Reporting(3000 * k, 40_000 + of * 33_333))
        assert k < 12 or abs(clock.capture_ns(3000 * k) - (40_000_000 + k * 33_333_333)) < 60_000
