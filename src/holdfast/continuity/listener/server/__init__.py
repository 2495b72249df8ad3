"""The server of a listener: calls to it over kept connections, its WebSockets, and whether its state is known."""
