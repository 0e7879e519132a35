"""Paths that containers, images and machines agree on."""

VOLUME = "/usr/local/pai"
"""Where both containers of a pod have what they share, and where a task of a local run sees its directory."""
TASK_FOLDER = f"{VOLUME}/runtime.d"
"""The directory of a pod's task, unless ``PAI_RUNTIME_DIR`` says where."""
LAUNCHER = f"{VOLUME}/runtime"
"""The command of the task container."""
BUNDLE = f"{VOLUME}/bundle"
"""The path of the bundle, by which its programs and libraries find each other."""
TOOLS = f"{BUNDLE}/applets"
"""The directory in the bundle with a shell and the usual programs."""
BUNDLED_CERTIFICATES = f"{BUNDLE}/ssl/cert.pem"
"""For images that have none of `CERTIFICATES`."""

CONFIG, CODE, SECRETS = f"{VOLUME}-config", f"{VOLUME}-code", f"{VOLUME}-secrets"
"""What an engine mounts for the init container."""
OUTPUT = f"{VOLUME}-output"
"""The storage to which the sidecar of a pod copies the output of its task, where it is kept."""

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The directory with the token of a pod's service account and the API server's CA certificate."""

TERMINATION_LOG = "/tmp/pai-termination-log"  # noqa: S108 - the platform's name for it
"""Where Kubernetes reads the exit record of a task container."""

CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""The paths of CA certificates in images: Debian and Alpine, Red Hat, SUSE, others."""

IMAGE = "/opt/pai-runtime"
"""What the runtime image has of the runtime."""
IMAGE_BUNDLE = f"{IMAGE}/bundle"
"""The bundle there, unless ``PAI_RUNTIME_BUNDLE`` says where."""
IMAGE_SCRIPTS = "/user/local/pai"
"""What an image of the platform has of its own, as the volume hides what it has in `VOLUME`."""
INIT_SCRIPTS = (f"{IMAGE}/init.d", f"{IMAGE_SCRIPTS}/init.d")
"""Where an image has the commands of its init plugins."""

MACHINE = "/etc/pai-runtime"
"""The policy and the configuration of a machine, or of the runtime image."""
