"""Makes the harnesses beside this file importable by the tests in the folders below it."""
