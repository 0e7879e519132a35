"""What requests over a network have in common: time, trust, proxies, redirects, and what went wrong."""
