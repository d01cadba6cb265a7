"""64-bit integers for targets without them: two words of u32, or an i32 where that is enough."""
