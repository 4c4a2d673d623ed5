"""Rules about probes and the time that a start takes."""
