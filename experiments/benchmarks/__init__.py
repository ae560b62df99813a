"""Timings against plain, well-written references; one module per benchmark."""
