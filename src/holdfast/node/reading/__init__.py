"""Reading back from the channel: heads, slices, pages, and how far a subscription reaches."""
