"""The host's side of a program for a device, as C: its launch plan, and the calls of a driver that
a port writes in C.
"""
