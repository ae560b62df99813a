"""Logs of rollouts: one canonical row for everything that samples."""
