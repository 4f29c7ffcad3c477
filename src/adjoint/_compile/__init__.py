"""Functions recorded once, and run as whole programs."""
