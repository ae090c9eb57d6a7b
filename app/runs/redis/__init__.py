"""What is known of runs, shared among replicas through Redis (or Valkey): streams, hashes, lists and keys that expire.

A replica holds one lease for all its runs and renews it. What each run says is appended to a stream whose entries have
the run's own numbers, so that Redis itself refuses a number that was written already: whoever takes a run for lost and
whoever goes on with it cannot both write the next entry.
"""

from app.runs.redis.store import RedisRunStore

__all__ = ["RedisRunStore"]
