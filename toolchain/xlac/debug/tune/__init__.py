"""Tuning: searches schedules by measurement, and keeps those that are faster in place."""
