"""Figures of a posterior (needs the extra `figures`)."""
