"""How long to wait before something is tried again."""


def backoff(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after so many failures, from 1: exponential back-off with full jitter.

    The upper limit is `first` and doubles with each failure, up to `longest`. Below it the pause is random,
    so that many clients that have failed at one time do not all come back at one time.
    """
    from random import uniform  # noqa: PLC0415 - most processes never wait

    limit = min(longest, first * 2 ** min(failures - 1, 32))
    return uniform(0, limit)  # noqa: S311 - not a secret
