"""The device-independent part of lowerings, by kind of group: everything but the loops."""
