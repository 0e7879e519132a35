"""Advice in the words of the platform that a log came from: `memoryMB` is a field of this runtime's jobs."""

import re

from pai_failure_analysis.rules import Rule

_SLURM = re.compile(rb"^(?:slurmstepd|srun|sbatch|salloc)[\w-]*: |\bSLURM_JOB_?ID\b", re.MULTILINE)
_KUBERNETES = re.compile(
    rb"\bOOMKilled\b|[Tt]he node was low on resource: |\bkubelet\b|^\[pod/", re.MULTILINE
)

_MEMORY = re.compile(r" \(memoryMB\)|(?<=Request more memory)(?! \()")
_SHARED_MEMORY = re.compile(r"(?: in the job)? ?\((?:extraContainerOptions\.)?shmMB\)")

_WORDS = (
    (_SLURM, "(--mem or --mem-per-cpu)", " (--shm-size of its container, or the node's /dev/shm)"),
    (_KUBERNETES, "(resources.limits.memory)", " (an emptyDir with medium: Memory at /dev/shm)"),
)
"""What shows the platform; its words for main memory and for shared memory."""


def in_words_of_origin(rule: Rule, log: bytes) -> Rule:
    """Return a rule whose advice has the words of Slurm or Kubernetes, if the log shows that it is theirs."""
    for shown, memory, shared in _WORDS:
        if shown.search(log):
            advice = (_SHARED_MEMORY.sub(shared, _MEMORY.sub(f" {memory}", line)) for line in rule.solution)
            return rule._replace(solution=tuple(advice))
    return rule
