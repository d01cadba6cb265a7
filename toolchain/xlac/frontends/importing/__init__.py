"""What importers of model files share, whatever their format: inputs, weights, problems, captured
values of bodies.
"""
