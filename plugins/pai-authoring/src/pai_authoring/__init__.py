"""Commands for those who write jobs: schemas for editors, completion for shells, and new jobs."""
