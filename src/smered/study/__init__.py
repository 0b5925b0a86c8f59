"""The paper's study: its simulation, its application, and what its settings do."""
