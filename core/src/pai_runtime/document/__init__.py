"""What people write: YAML whose values know where they stand, its schemas, and problems with it."""
