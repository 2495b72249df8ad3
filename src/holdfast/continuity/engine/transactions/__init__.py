"""The transactions of an engine: reads and writes under way, and the sessions they belong to."""
