"""The command line: `holdfast COMMAND`."""
