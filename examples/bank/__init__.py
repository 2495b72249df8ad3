"""The bank: an account that survives the death of its server, because two servers have it."""
