"""Schedules that ship with the compiler."""
