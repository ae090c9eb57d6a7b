"""The compose file at scale, for real: two replicas behind nginx, PostgreSQL and Redis, and what befalls them."""
