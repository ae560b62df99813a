"""One family of statistics a module: numbers of each task from its rows, and from those the statistics."""
