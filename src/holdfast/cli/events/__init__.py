"""Commands about events: send, receive, browse, record, relay, and the dead ones."""
