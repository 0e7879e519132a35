"""Files that users write: YAML whose values know their position, its schemas, and its problems."""
