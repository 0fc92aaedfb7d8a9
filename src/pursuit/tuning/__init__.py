"""Hyper-parameters from the data. Imports greedy and what lies below it."""

from pursuit.tuning.noise import learn_noise

__all__ = ["learn_noise"]
