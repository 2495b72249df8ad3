"""A line: one route at work. It draws from upstream, appends here with a mark, and settles with upstream."""
