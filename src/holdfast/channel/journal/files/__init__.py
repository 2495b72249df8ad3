"""The files of a journal: how segments, records and marks look on disk."""
