"""OpenPAI's own part of a pod: what FrameworkController knows of its job, as init steps.

The Framework, its object for a job, is read from the Kubernetes API once all tasks have an address. From it
follow the job file, and the addresses and ports of all tasks.
"""
