"""Plans: from the uses of a job to the plan of each task."""
