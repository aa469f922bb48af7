"""Whether a failed attempt is tried again, and when. Pure: the spread comes from ids, so that replay agrees."""

from ductor.definitions.policies import Retry
from ductor.journal.events import ErrorInfo
from ductor.journal.ids import share


def policy_for(policies: tuple[Retry, ...], error: ErrorInfo) -> Retry | None:
    """The first policy that is meant for this error."""
    for policy in policies:
        if policy.only and error.type not in policy.only:
            continue
        if error.type in policy.exclude:
            continue
        return policy
    return None


def backoff_ms(policy: Retry, attempt: int, spread: float) -> int:
    """The pause after failed attempt `attempt` (from 1). `spread` in [0, 1) moves it by up to `jitter` both ways."""
    try:
        grown = policy.initial_ms * policy.factor ** (attempt - 1)
    except OverflowError:  # a large power is far beyond any cap
        grown = float(policy.max_ms)
    capped = min(grown, float(policy.max_ms))
    return max(0, round(capped * (1.0 + policy.jitter * (2.0 * spread - 1.0))))


def retry_delay_ms(
    policies: tuple[Retry, ...],
    error: ErrorInfo,
    *,
    attempt: int,
    elapsed_ms: int,
    total_ms: int | None,
    run_id: str,
    node: str,
    generation: int,
) -> int | None:
    """The pause before the next attempt in milliseconds; None when there is none.

    A retry that could only start after the round's total time is over is not made: the node fails at once, with the
    error that the attempt failed with.
    """
    if not error.retryable:
        return None
    policy = policy_for(policies, error)
    if policy is None or attempt >= policy.max_attempts:
        return None
    if error.retry_after_ms is not None:
        delay_ms = error.retry_after_ms
    else:
        delay_ms = backoff_ms(policy, attempt, share(run_id, node, str(generation)))
    if total_ms is not None and elapsed_ms + delay_ms >= total_ms:
        return None
    return delay_ms
