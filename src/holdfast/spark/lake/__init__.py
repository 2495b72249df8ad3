"""Lake tables: parquet files and a Delta log, to which each batch of a query is added exactly once."""
