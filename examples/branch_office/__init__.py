"""A branch office behind a thin line: a relay draws what concerns it, and its people work on while the line is cut."""
