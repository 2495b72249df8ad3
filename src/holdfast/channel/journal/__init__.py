"""The journal: a channel on one machine, made of segment files that are written before use and recycled for ever."""
