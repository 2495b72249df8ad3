"""Commands about events: send, receive, browse, record, and the dead ones."""
