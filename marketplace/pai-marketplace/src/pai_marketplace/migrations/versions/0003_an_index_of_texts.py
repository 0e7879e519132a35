"""An index by which the texts of items are searched: of the parts of three characters that they have."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change the schema."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE.split(";;"):
            op.execute(statement)
    # Without PostgreSQL's contributed modules, a search reads all texts.
    elif connection.scalar(sa.text("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")):
        op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        op.execute("CREATE INDEX item_texts ON items USING gin (search_text gin_trgm_ops)")


# By the id of an item, and not the number of its row: VACUUM gives other numbers to rows with such a key.
_SQLITE = """
CREATE VIRTUAL TABLE item_texts
USING fts5 (item_id UNINDEXED, search_text, tokenize = 'trigram case_sensitive 1');;
INSERT INTO item_texts (item_id, search_text) SELECT id, search_text FROM items;;
CREATE TRIGGER item_texts_added AFTER INSERT ON items
BEGIN INSERT INTO item_texts (item_id, search_text) VALUES (new.id, new.search_text); END;;
CREATE TRIGGER item_texts_changed AFTER UPDATE OF search_text ON items
BEGIN UPDATE item_texts SET search_text = new.search_text WHERE item_id = new.id; END
"""
