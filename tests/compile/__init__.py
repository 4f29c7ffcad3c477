"""`ad.compile`: what programs read, and how they are made."""
