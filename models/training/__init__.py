"""Supervised training of transformers on the demonstrations of a task.

A training run is a pure function of its configuration: the examples of step s are addressed by (seed, s), so that what a run was
interrupted by leaves no trace in what comes out.
"""
