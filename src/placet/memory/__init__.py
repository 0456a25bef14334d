"""Facts that stay true: stored with their source and their times, found again, and explained."""
