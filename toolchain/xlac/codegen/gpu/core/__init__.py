"""What GPU lowerings share: grids, pipelines, staging in shared memory, instructions."""
