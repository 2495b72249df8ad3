"""The backlog: batches that wait, packed into arrays, and where their bodies lie."""
