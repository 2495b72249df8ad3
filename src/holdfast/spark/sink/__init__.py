"""Writing: rows become batches of events, staged by tasks and published once for each batch of a query."""
