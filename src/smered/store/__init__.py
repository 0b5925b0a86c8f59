"""Where draws go: clusters with the range of draws over which they lived, and parameters."""
