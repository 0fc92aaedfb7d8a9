"""When to stop: sizes, gaps, time and the user."""

import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from pursuit.greedy import (
    Deadline,
    GapBelow,
    Interrupted,
    MaxSize,
    Overdue,
    Pursuit,
    catch_interrupt,
    stopping,
)
from pursuit.store import replacing


class Endless:
    """A hundred candidates of gain 1; ``when_taken(n)`` is called as the n-th is taken."""

    def __init__(self, when_taken=lambda n: None):
        self.available = np.ones(100, bool)
        self.value = 100.0
        self.when_taken = when_taken

    def score(self, candidates):
        return np.ones(len(candidates))

    def add(self, candidate):
        self.available[candidate] = False
        self.value -= 1
        self.when_taken(int(100 - self.value))
        return True


class Clock:
    """A meter on which every step takes a second."""

    def __init__(self):
        self.entries, self.passes = 0, 0.0
        self.seconds = 0.0

    def tick(self, n):
        self.seconds, self.entries, self.passes = float(n), 10 * n, n / 2


def run(*rules, clock=None):
    clock = clock or Clock()
    return Pursuit(Endless(clock.tick), clock).run(rules)


def test_size():
    path = run(MaxSize(7))
    assert len(path) == 7
    assert path.stop_reason == "n_basis"


def test_costs_are_those_at_the_end_of_each_step():
    path = run(MaxSize(3))
    assert path.seconds.tolist() == [1, 2, 3]
    assert path.entries.tolist() == [10, 20, 30]
    assert path.passes.tolist() == [0.5, 1, 1.5]


def test_gap_is_looked_at_every_step():
    path = run(GapBelow(0.25, lambda pursuit: 1 / pursuit.size))
    np.testing.assert_allclose(path.gap, [1, 1 / 2, 1 / 3, 1 / 4])
    assert path.stop_reason == "tol"


def test_gap_is_looked_at_as_the_basis_grows():
    looked = []

    def gap(pursuit):
        looked.append(pursuit.size)
        return 1.0

    path = run(GapBelow(0.5, gap, growth=0.5), MaxSize(50))
    assert looked == [1, 2, 3, 4, 6, 9, 13, 19, 28, 42]
    assert np.flatnonzero(~np.isnan(path.gap)).tolist() == [n - 1 for n in looked]
    assert path.stop_reason == "n_basis"


def test_what_a_gap_costs_is_counted_with_its_step():
    clock = Clock()

    def gap(pursuit):
        clock.seconds += 0.5
        clock.entries += 5
        clock.passes += 1
        return 0.0

    path = run(GapBelow(0.1, gap), clock=clock)
    assert (path.seconds.tolist(), path.entries.tolist(), path.passes.tolist()) == (
        [1.5],
        [15],
        [1.5],
    )


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        (Deadline(5.0), 5),
        (Deadline(4.5), 5),
        (Deadline(0.0), 1),
        (Deadline(20.0, lambda n: n**2), 4),
    ],
)
def test_deadline(rule, steps):
    path = run(rule)
    assert len(path) == steps
    assert path.stop_reason == "time"


def test_interrupt_requested():
    rule = Interrupted()
    assert rule(SimpleNamespace()) is None
    rule.requested = True
    assert rule(SimpleNamespace()) == "interrupted"


def test_patience_begins_with_the_request(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stopping.time, "perf_counter", lambda: now[0])
    rule = Interrupted()
    assert not rule.overdue()
    rule.request()
    assert rule.requested
    now[0] += stopping.PATIENCE_SECONDS - 0.01
    assert not rule.overdue()
    now[0] += 0.2
    assert rule.overdue()


@pytest.fixture
def ctrl_c():
    """Ctrl-C means what Python says it means, whatever runs the tests."""
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, outside)


def test_a_signal_ends_the_run_after_its_step(ctrl_c):
    clock = Clock()

    def when_taken(n):
        clock.tick(n)
        if n == 4:
            ctrl_c()

    with catch_interrupt() as rule:
        path = Pursuit(Endless(when_taken), clock).run([rule, MaxSize(50)])
        assert rule.requested
    assert len(path) == 4
    assert path.stop_reason == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_interrupts_at_once(ctrl_c):
    taken = []

    def when_taken(n):
        taken.append(n)
        if n == 2:
            ctrl_c()
            ctrl_c()

    with pytest.raises(KeyboardInterrupt), catch_interrupt() as rule:
        Pursuit(Endless(when_taken), Clock()).run([rule])
    assert taken == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_returns_after_an_error(ctrl_c):
    inside = []

    def fail():
        inside.append(signal.getsignal(signal.SIGINT))
        raise LookupError

    with pytest.raises(LookupError), catch_interrupt():
        fail()
    assert inside != [signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_ignores_is_left_alone(ctrl_c):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_interrupt() as rule:
        ctrl_c()
    assert not rule.requested


def test_other_threads_get_a_rule_that_never_fires(ctrl_c):
    handlers, rules = [], []

    def work():
        with catch_interrupt() as rule:
            handlers.append(signal.getsignal(signal.SIGINT))
            rules.append(rule)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
    assert not rules[0].requested


def dawdle(ctrl_c, grace, path=None):
    """Ignore Ctrl-C, and write a file slowly."""
    with catch_interrupt(grace):
        ctrl_c()
        if path is not None:
            with replacing(path) as file:
                slow_write(file)
        time.sleep(30.0)
    pytest.fail("the alarm did not ring")


def test_a_request_that_nobody_honours_ends_the_context(ctrl_c):
    began = time.perf_counter()
    with pytest.raises(Overdue):
        dawdle(ctrl_c, 0.05)
    assert 0.05 <= time.perf_counter() - began < 30.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with catch_interrupt(grace=0.05):
        ctrl_c()
    time.sleep(0.1)  # nothing rings in a context that was left


def test_an_alarm_waits_until_a_file_is_written(ctrl_c, tmp_path):
    with pytest.raises(Overdue):
        dawdle(ctrl_c, 0.01, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"whole"


def slow_write(file):
    """Stand in for a function of the module that writes files."""
    code = "import time\ntime.sleep(0.2)\nfile.write(b'whole')\n"
    exec(compile(code, "/pursuit/store.py", "exec"), {"file": file})


def test_a_context_within_another_has_its_rule(ctrl_c):
    with catch_interrupt() as outer, catch_interrupt() as inner:
        ctrl_c()
        assert inner is outer
    assert outer.requested


def test_a_clock_tells_what_is_left_of_its_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(stopping.time, "perf_counter", lambda: now)
    clock, endless = stopping.Clock(10.0), stopping.Clock()
    now = 103.0
    assert clock.left() == 7.0
    assert clock.left(0.5) == 2.0
    assert not clock.over()
    assert clock.over(0.3)
    now = 1e6
    assert clock.over()
    assert endless.left() == np.inf
    assert not endless.over(1e-9)
