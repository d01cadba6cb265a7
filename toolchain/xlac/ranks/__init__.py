"""Programs that several processes run together: docs/DISTRIBUTED.md."""
