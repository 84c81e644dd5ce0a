"""The other CPU core as an asynchronous device."""
