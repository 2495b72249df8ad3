"""A node of a cluster: its copies of message managers, which of them is primary, and its client manager, over NATS."""
