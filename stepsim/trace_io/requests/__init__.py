"""Request traces and KV-cache lengths."""
