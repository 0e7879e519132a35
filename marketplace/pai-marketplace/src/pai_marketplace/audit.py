"""The audit trail: who did what, to what, when."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from pai_marketplace.models import Audit


def record_action(
    session: Session, actor: str, action: str, item: str = "", detail: Mapping[str, Any] | None = None
) -> None:
    """Add an entry to the audit trail, in the transaction of what was done."""
    session.add(Audit(actor=actor, action=action, item=item, detail=json.dumps(detail or {}, default=list)))
