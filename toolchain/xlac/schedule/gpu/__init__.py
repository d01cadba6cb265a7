"""Schedules for targets whose threads run in warps, their blocks sharing memory."""
