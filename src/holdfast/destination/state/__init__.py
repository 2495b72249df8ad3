"""The state: queues, topics, subscriptions, and who uses them. Commands alone change it."""
