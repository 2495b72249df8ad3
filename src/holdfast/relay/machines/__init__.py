"""The machines of the relay: renaming, marks, duties towards upstream, rules of a route, addresses for replies. Pure."""
