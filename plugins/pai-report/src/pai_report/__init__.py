"""What became of a run, for those who look at it and those who collect it: HTML, JSON and metrics."""
