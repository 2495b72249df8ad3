"""Logs for an operator: notices, the log of a server, and the topic `_LOG`."""
