"""Learned twists: heads, and how they are fitted."""
