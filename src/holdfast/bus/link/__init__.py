"""Links on the bus: messages arrive once and in order, or both sides hear that a new link begins. Pure."""
