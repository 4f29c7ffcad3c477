"""ad.linalg."""
