"""What windows send to the elements that they choose: the gradient of pooling by the largest."""
