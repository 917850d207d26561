"""What the Messages API says on the wire: bytes in, nouns out. Pure functions."""
