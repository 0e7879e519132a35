"""Adds up what every process has."""

import os

import jax
from jax.experimental import multihost_utils

jax.distributed.initialize(  # the coordinator's address it finds itself, in JAX_COORDINATOR_ADDRESS
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
    cluster_detection_method="deactivate",
)
total = multihost_utils.process_allgather(jax.numpy.array(jax.process_index() + 1)).sum()
print(f"process {jax.process_index()} of {jax.process_count()}: the sum is {total}")
