"""Raw tables: from texts, times and gaps to numbers."""
