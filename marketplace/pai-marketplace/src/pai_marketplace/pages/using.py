"""The page that makes a job of an item: a form of its variables, and a text to change and take away."""

from typing import Final

from starlette.responses import PlainTextResponse, Response

from pai_marketplace import publishing
from pai_marketplace.checking import check_job
from pai_marketplace.pages.browsing import asked, text_of
from pai_marketplace.pages.checked import Checked
from pai_marketplace.pages.site import HEADERS, Visit, reference
from pai_marketplace.pages.use_form import fields, job_text

_VALUE: Final = "var."
"""What the names of fields start with that are variables."""


def use_page(visit: Visit) -> Response:
    """Show the job of an item with the values in a form; or check, or give away, the text in it."""
    item, version = asked(visit)
    definition, text = text_of(visit, item, version)
    values = {
        name.removeprefix(_VALUE): value.strip()
        for name, value in visit.form.items()
        if name.startswith(_VALUE)
    }
    filled_in = fields(definition, values) if definition else ()
    if definition:
        text = job_text(definition, reference(item, version), filled_in)
    asked_for = visit.form.get("do", "fill")
    if asked_for != "fill":
        text = visit.form.get("text", text)
    if asked_for == "download":
        publishing.use(visit.session, item)
        return _download(text)
    return visit.page(
        "use.html",
        item=item,
        version=version,
        fields=filled_in,
        text=text,
        result=Checked(text, check_job(visit.session, visit.viewer, text)),
    )


def _download(text: str) -> Response:
    attached = {"Content-Disposition": 'attachment; filename="job.yaml"'}
    return PlainTextResponse(text, media_type="application/yaml", headers={**HEADERS, **attached})
