"""The attachment of a receiver: on which terms it receives, what it holds, and how it begins again."""
