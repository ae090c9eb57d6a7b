"""Speed of the gateway, side by side with others, over loopback: processor time, delay, memory and start-up."""
