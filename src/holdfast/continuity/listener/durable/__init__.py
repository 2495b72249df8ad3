"""The durable part of a listener: its store, with a mark before calls and answers after them."""
