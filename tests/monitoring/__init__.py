"""Alerts and dashboard."""
