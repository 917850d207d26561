"""What makes candidates: ``search`` needs no model."""
