"""The relay: receives on behalf of many recipients, keeps what came in its own journal, and tells upstream as its mode says."""
