"""Running a pipeline: what can be set, the run itself, and how it goes."""
