"""The admission server: what answers reviews, and what keeps it ready."""
