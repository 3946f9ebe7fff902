"""Load on a server of a language model: when requests are sent, the client that sends them, and what they tell."""
