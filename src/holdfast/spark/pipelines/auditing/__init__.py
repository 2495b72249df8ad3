"""What the audit is made of: inputs, their reconciliation, the report, and how it is shown."""
