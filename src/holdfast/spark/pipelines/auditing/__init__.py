"""The parts of the audit: inputs, their reconciliation, the report, and how it is shown."""
