"""Low-rank feature maps, and neighbours found through them."""
