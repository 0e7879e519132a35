"""Commands for what runs have made: ``cp`` and ``open`` reach it, ``diff`` compares it."""
