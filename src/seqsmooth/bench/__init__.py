"""What is timed, and against whom."""
