"""Figures of a posterior (extra `figures`), and the report of a run (extra `report`)."""
