"""The client: what a program holds, from `connect` to destinations, sessions, transactions and administration."""
