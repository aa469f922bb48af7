"""What to do next: coordinators, workers, queues and timers."""
