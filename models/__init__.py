"""What yields a distribution over token sequences."""
