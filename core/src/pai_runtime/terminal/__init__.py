"""What a person sees of a run in a terminal, and the only writer of text for people."""
