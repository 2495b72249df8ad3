"""The listener: stands before one server, calls it with every request in the order of the topic, and answers."""
