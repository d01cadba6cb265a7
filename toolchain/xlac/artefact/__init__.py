"""What `xlac build` leaves, and how it is loaded without the compiler."""
