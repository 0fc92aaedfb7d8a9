"""Certificates, evidence and error bars against arithmetic of 50 digits."""

from torture import Fuzzer, Report


def run(seed):
    """Nothing yet."""
    return Report()


FUZZER = Fuzzer("certificates", run)
