"""cuBLASLt and cuDNN."""
