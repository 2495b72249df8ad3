"""Programs on the client that a server can start beside itself: their commands, and the children that they then are."""
