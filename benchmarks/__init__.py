"""What is measured rather than tested: accuracy against real start-ups, speed, very long runs (`make bench`)."""
