"""Files of Keras: archives, HDF5 and where the weights of layers are in them."""
