"""podfit against a real API server: `make e2e`."""
