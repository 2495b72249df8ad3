"""Reading without taking: browsers, and reading by place."""
