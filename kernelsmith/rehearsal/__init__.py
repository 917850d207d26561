"""A loopback Messages server that plays recorded replies. It is no model."""
