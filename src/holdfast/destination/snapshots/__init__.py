"""Snapshots: the whole state as small parts, written now and then, and read back at a start."""
