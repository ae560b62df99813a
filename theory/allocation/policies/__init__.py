"""One method a file: its one-step rule, and below it the allocator for a training loop."""
