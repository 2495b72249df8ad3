"""The machines of the channel on JetStream: what is sent when, what is damage, where stretches begin. Pure."""
