"""What only models of Keras 2 have: functions of TensorFlow as layers, which take TensorFlow's
arguments, and layers that Keras 3 has no more; importing this registers them.
"""

from __future__ import annotations

from xlac.frontends.keras.keras2 import (
    arranging_of_tensorflow,
    locally_connected,
    pointwise_of_tensorflow,
)

__all__ = ["arranging_of_tensorflow", "locally_connected", "pointwise_of_tensorflow"]
