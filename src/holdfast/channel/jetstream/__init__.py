"""The channel of a cluster: a NATS JetStream stream, which NATS replicates and makes durable.

Only this folder imports `nats` (the extra `cluster`).
"""
