"""The answer link: how listeners answer engines, beside the journal."""
