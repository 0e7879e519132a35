"""The rendering of a job for Kubernetes: from the job, its plans and the profile to objects."""
