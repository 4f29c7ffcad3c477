"""Layers: modules with parameters, and the machinery they share."""
