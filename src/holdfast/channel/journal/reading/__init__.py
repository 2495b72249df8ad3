"""Reading a journal: find what is in its folder, judge it, and read entries and snapshots back."""
