"""Figures drawn from tables on disk. Never simulates."""
