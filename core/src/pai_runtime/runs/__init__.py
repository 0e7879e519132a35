"""What a run is on disk, whichever engine ran it."""
