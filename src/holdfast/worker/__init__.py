"""The worker: handlers for queues and topics, with retries, time limits, transactions and an orderly end."""
