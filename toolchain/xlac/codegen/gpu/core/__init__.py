"""Shared by GPU lowerings: grids, pipelines, staging in shared memory, instructions."""
