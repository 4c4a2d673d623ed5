"""Rules about the memory of the container: limits, requests, /dev/shm."""
