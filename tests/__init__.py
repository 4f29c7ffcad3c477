"""Tests, in rooms by what they test."""
