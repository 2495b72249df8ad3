"""The engine: takes requests, sends each to all servers of its domain, and returns the first answer."""
