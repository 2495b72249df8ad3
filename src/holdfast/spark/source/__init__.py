"""Reading: the driver owns a subscription and cuts batches, executors fetch them, and what Spark has safe is confirmed."""
