"""Deliberately wrong variants of public functions, one module for each room.

Each is the twin of a statistical assertion: the assertion must reject it (`stat_asserts.assert_rejected`),
otherwise it would not have noticed that mistake in the real code either.
"""
