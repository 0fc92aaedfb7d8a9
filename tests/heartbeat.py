"""Whether a process that another one has started still runs."""

import time


def beating(path):
    """A program that writes to a file ten times a second, and never ends."""
    return f"import time\nwhile True:\n    open({str(path)!r}, 'a').write('x')\n    time.sleep(0.1)"


def has_stopped(path):
    """Whether a program that has beaten no longer does."""
    beats = path.stat().st_size
    time.sleep(1.0)
    return beats > 0 and path.stat().st_size == beats
