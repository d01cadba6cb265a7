"""Functions of one example as functions of many: nodes along a leading axis."""
