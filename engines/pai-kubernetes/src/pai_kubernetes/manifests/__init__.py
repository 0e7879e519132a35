"""What a job is on Kubernetes: from the job, its plans and the profile to objects."""
