"""The gradient of max pooling: each window sends its gradient to the element that it selects."""
