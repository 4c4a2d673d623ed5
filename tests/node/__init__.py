"""podfit's image and chart on a real node: `make node` (CONTRIBUTING.md)."""
