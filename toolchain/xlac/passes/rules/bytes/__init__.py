"""Rules for products and movements of bytes."""
