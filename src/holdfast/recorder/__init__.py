"""The recorder: keeps events on disk without a server, and forwards them when one can take them."""
