"""Delivery: which receiver gets which event next. Only a primary has one."""
