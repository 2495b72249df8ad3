"""The machines of continuity: gathering answers, comparing them, order by key, known keys, doubt, membership. Pure."""
