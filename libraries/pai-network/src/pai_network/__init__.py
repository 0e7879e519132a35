"""The shared parts of network requests: deadlines, trust, proxies, redirects and errors."""
