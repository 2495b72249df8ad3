"""The credit of a receiver: how many events and bytes may be on their way to it."""
