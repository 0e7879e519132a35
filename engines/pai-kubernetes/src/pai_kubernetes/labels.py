"""The labels and annotations of objects on a cluster: our own, and those that controllers give them."""

from typing import Final

RUN: Final = "pai-runtime/run"
"""Label of every object of a run: the name of the run, which is also that of the JobSet."""
ROLE: Final = "pai-runtime/role"
"""Label and annotation of pods: the task role, in the annotation always as written."""
JOB: Final = "pai-runtime/job"
"""Label and annotation of every object: the name of the job, as above."""
USER: Final = "pai-runtime/user"
"""Label and annotation of every object: who has submitted it, as above."""
ROLES: Final = "pai-runtime/roles"
"""Annotation of the JobSet: JSON, by task role: ``{"name": its replicated job, "instances": n}``."""
FILE: Final = "pai-runtime/file"
"""Annotation of the JobSet: the name of the job file."""
PROVENANCE: Final = "pai-runtime/provenance"
"""Annotation of the JobSet: JSON, what produced the run, without the text of the job."""
MOST_PROVENANCE: Final = 64 * 1024
"""Maximum characters of that annotation, of the 256 KiB that all of them may have."""
HOLD: Final = "pai-runtime/hold"
"""Annotation of the JobSet: for how many seconds a task that fails is held, if it is."""
CANCELLED: Final = "pai-runtime/cancelled"
"""Annotation of a stopped JobSet: when it was stopped (RFC 3339)."""

# JobSet and Job give these to pods.
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotation of pods: the number of evictions and the like, which do not count as failures."""
# Kueue reads these of a JobSet.
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"

APP: Final = "app"
"""The name of the container that runs the task."""
INIT: Final = "init"
"""The name of the init container."""
RUNTIME_LOG: Final = "runtime-log"
"""The name of the sidecar, an init container that keeps running, which prints the runtime's log."""
