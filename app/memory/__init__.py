"""What a conversation remembers."""
