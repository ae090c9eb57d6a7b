"""Small applications of others' making, that are measured beside the gateway."""
