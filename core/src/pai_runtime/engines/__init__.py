"""Engines, which decide where the tasks of a job run, and never what runs in them."""
