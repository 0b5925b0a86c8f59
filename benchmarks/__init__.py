"""What the package costs and how well it does, measured."""
