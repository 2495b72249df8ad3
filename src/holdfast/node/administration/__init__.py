"""Administration: which actions there are, what each takes, and the queue `_ADMIN`."""
