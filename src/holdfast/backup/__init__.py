"""Backup: checked copies of a data folder that may be in use, each copying only what changed, and restoring one."""
