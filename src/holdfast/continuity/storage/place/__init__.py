"""A storage place: applies the writes of a file store in order, keeps the bytes on its shelf, and answers while it is current."""
