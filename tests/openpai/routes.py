"""The requests that OpenPAI's REST server knows, and its replies."""

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tests.openpai import job_views
from tests.openpai.cluster import Cluster, Token
from tests.openpai.hived import check_hived
from tests.openpai.jobs import Job, JobAttempt, Task, converted
from tests.openpai.submission import MOST_BYTES, Refused, read_submission

Reply = tuple[int, Any]


@dataclass(frozen=True)
class Call:
    """A request to the API."""

    cluster: Cluster
    authorization: str
    body: bytes
    content_type: str
    query: Mapping[str, str]

    def credential(self) -> str:
        """An application token may be the password of its user; the user's password may not."""
        kind, _, text = self.authorization.partition(" ")
        if kind == "Basic":
            return base64.b64decode(text).decode().partition(":")[2]
        if kind != "Bearer":
            raise Refused(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        return text

    def token(self, *, by_login: bool = False) -> Token:
        token = self.cluster.tokens.get(self.credential())
        if token is None or (token.expires is not None and token.expires < time.time()):
            raise Refused(401, "UnauthorizedUserError", "Your token is invalid.")
        if by_login and token.application:
            raise Refused(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
        return token

    def job(self, name: str) -> Job:
        self.token()
        if name not in self.cluster.jobs:
            raise Refused(404, "NoJobError", f"Job {name} is not found.")
        return self.cluster.jobs[name]

    def own_job(self, name: str, verb: str) -> Job:
        job, user = self.job(name), self.token().user
        if user != job.user and not self.cluster.users[user].admin:
            raise Refused(403, "ForbiddenUserError", f"User {user} is not allowed to {verb} job {name}.")
        return job

    def form(self) -> dict[str, Any]:
        text = self.body.decode()
        form: dict[str, Any] = json.loads(text) if "json" in self.content_type else dict(parse_qsl(text))
        return form


def reply(call: Call, method: str, path: str) -> Reply:
    """What the server replies; `Refused` is raised for its errors."""
    for pattern, handle in _ROUTES.items():
        if found := re.fullmatch(pattern, f"{method} {path}"):
            return handle(call, *found.groups())
    raise Refused(404, "NoApiError", f"API {path} is not found.")


def _info(call: Call) -> Reply:
    return 200, {
        "name": "PAI RESTful API",
        "version": "v1.8.0",
        "launcherType": "k8s",
        "authnMethod": "OIDC" if call.cluster.oidc else "basic",
    }


def _authn_info(call: Call) -> Reply:
    del call
    return 200, {
        "authn_type": "basic",
        "loginURI": "/api/v1/authn/basic/login",
        "loginURIMethod": "post",
    }


def _oidc_login(call: Call) -> Reply:
    """The login at the provider is left out: it comes back at once, to whatever address was given."""
    token = call.cluster.token(call.cluster.oidc, application=False, seconds=604_800)
    query = {"user": call.cluster.oidc, "token": token, "admin": "false", "hasGitHubPAT": "", "from": ""}
    return 302, f"{call.query['redirect_uri']}?{urlencode(query)}"


def _login(call: Call) -> Reply:
    if call.cluster.oidc:
        raise Refused(404, "NoApiError", "API /api/v2/authn/basic/login is not found.")
    form = call.form()
    name = form.get("username", "")
    if len(form.get("password", "")) < 6:
        text = 'child "password" fails because ["password" length must be at least 6 characters long]'
        raise Refused(400, "InvalidParametersError", text)
    user = call.cluster.users.get(name)
    if user is None:
        raise Refused(400, "NoUserError", f"User {name} is not found.")
    if form["password"] != user.password:
        raise Refused(400, "IncorrectPasswordError", "Password is incorrect.")
    token = call.cluster.token(name, application=False, seconds=604_800)
    return 200, {"user": name, "token": token, "admin": user.admin}


def _logout(call: Call) -> Reply:
    if call.cluster.oidc:
        raise Refused(404, "NoApiError", "API /api/v2/authn/basic/logout is not found.")
    call.token(by_login=True)
    call.cluster.tokens.pop(call.credential())
    return 200, {"message": "Logout successfully"}


def _revoke(call: Call, token: str) -> Reply:
    user = call.token(by_login=True).user
    if token in call.cluster.tokens and call.cluster.tokens[token].user != user:
        raise Refused(403, "ForbiddenUserError", f"User {user} is not allowed to do this operation.")
    call.cluster.tokens.pop(token, None)
    return 200, {"message": "revoke successfully"}


def _application_token(call: Call) -> Reply:
    return 200, {"token": call.cluster.token(call.token(by_login=True).user), "application": True}


def _tokens(call: Call) -> Reply:
    user = call.token(by_login=True).user
    return 200, {"tokens": [text for text, token in call.cluster.tokens.items() if token.user == user]}


def _token_check(call: Call) -> Reply:
    token = call.token()
    payload = {"username": token.user, "application": token.application, "jobSpecific": False}
    ends = {} if token.expires is None else {"exp": int(token.expires)}
    admin = call.cluster.users[token.user].admin
    return 200, {**payload, "encodedFrameworkName": "", "iat": token.issued, **ends, "admin": admin}


def _user(call: Call, name: str) -> Reply:
    call.token()
    user = call.cluster.users.get(name)
    if user is None:
        raise Refused(400, "NoUserError", f"User {name} is not found.")
    return 200, {
        "username": name,
        "grouplist": ["default"],
        "email": f"{name}@example.com",
        "extension": {"jobSSH": {"key": "a private key", "pubKey": "a public key"}},
        "admin": user.admin,
        "virtualCluster": list(user.virtual_clusters),
        "storageConfig": list(user.storages),
    }


def _virtual_clusters(call: Call) -> Reply:
    call.token()
    names = sorted({name for user in call.cluster.users.values() for name in user.virtual_clusters})
    return 200, {
        name: {
            "capacity": 100,
            "usedCapacity": 0,
            "dedicated": False,
            "maxCapacity": 100,
            "resourcesUsed": _resources(call.cluster, name, 0),
            "resourcesGuaranteed": _resources(call.cluster, name),
            "resourcesTotal": _resources(call.cluster, name),
        }
        for name in names
    }


def _resources(cluster: Cluster, name: str, share: int = 1) -> dict[str, int]:
    """With HiveDScheduler, as many as the SKUs of the virtual cluster have."""
    found = {"cpu": 48, "memory": 458_752, "gpu": 8}
    if cluster.sku_types:
        found = {key: cluster.quotas[name].total(cluster.sku_types, key) for key in found}
    found = {key: amount * share for key, amount in found.items()}
    return {**found, "vCores": found["cpu"], "GPUs": found["gpu"]}


def _sku_types(call: Call) -> Reply:
    call.token()
    if (name := call.query.get("vc")) is None:
        return 200, call.cluster.sku_types
    if not call.cluster.sku_types or name not in call.cluster.quotas:
        raise Refused(404, "NoVirtualClusterError", f"Vc {name} not found")
    skus = call.cluster.quotas[name].skus
    return 200, {sku: each for sku, each in call.cluster.sku_types.items() if sku in skus}


def _storages(call: Call) -> Reply:
    own = call.cluster.users[call.token().user].storages
    keys = ("name", "share", "volumeName")
    found = [
        {**{key: call.cluster.storages[name][key] for key in keys}, "default": name == own[0]} for name in own
    ]
    if call.query.get("default") == "true":
        found = [each for each in found if each["default"]]
    return 200, {"storages": found}


def _storage(call: Call, name: str) -> Reply:
    user = call.token().user
    if name not in call.cluster.storages:
        raise Refused(404, "NoStorageError", f"Storage {name} is not found.")
    if name not in call.cluster.users[user].storages:
        raise Refused(403, "ForbiddenUserError", f"User {user} is not allowed to access {name}.")
    return 200, call.cluster.storages[name]


def _submit(call: Call) -> Reply:
    user = call.token().user
    if len(call.body) > MOST_BYTES:
        raise Refused(413, None, "request entity too large")
    is_text = call.content_type.startswith("text/")
    submission = read_submission(call.body.decode() if is_text else "[]")
    if submission.virtual_cluster not in call.cluster.users[user].virtual_clusters:
        where = f"User {user} is not allowed to do operation in {submission.virtual_cluster}"
        raise Refused(403, "ForbiddenUserError", where)
    for storage in (submission.public.get("extras") or {}).get("storages") or ():
        if storage.get("name") not in call.cluster.users[user].storages:
            raise Refused(404, "NoStorageError", f"Storage {storage.get('name')} is not found.")
    if call.cluster.sku_types:
        where = submission.virtual_cluster
        check_hived(submission.public, call.cluster.sku_types, where, call.cluster.quotas[where])
    call.cluster.add(user, submission)
    return 202, {"status": 202, "message": f"Update job {submission.name} for user {user} successfully."}


def _list(call: Call) -> Reply:
    call.token()
    most = int(call.query.get("limit", 5000))
    if most > 50_000:
        raise Refused(400, "InvalidParametersError", "Limit exceeds max number 50000.")
    jobs = [job_views.in_list(job) for job in reversed(call.cluster.jobs.values())]
    for parameter, key in (("username", "username"), ("vc", "virtualCluster"), ("state", "state")):
        if parameter in call.query:
            jobs = [job for job in jobs if job[key] in call.query[parameter].split(",")]
    jobs = [job for job in jobs if call.query.get("keyword", "") in job["name"]]
    if tags := call.query.get("tagsContain"):
        jobs = [job for job in jobs if set(tags.split(",")) & set(job["tags"])]
    start = int(call.query.get("offset", 0))
    page = jobs[start : start + most]
    return 200, {"totalCount": len(jobs), "data": page} if "withTotalCount" in call.query else page


def _detail(call: Call, name: str) -> Reply:
    job = call.job(name)
    with job.changed:
        return 200, job_views.in_detail(job, job.attempts[-1] if job.attempts else None)


def _attempt(call: Call, name: str, number: str) -> Reply:
    job = call.job(name)
    with job.changed:
        return 200, job_views.in_detail(job, _job_attempt(job, number) if job.attempts else None)


def _job_attempt(job: Job, number: str) -> JobAttempt:
    if int(number) >= len(job.attempts):
        raise Refused(404, "NoJobError", f"JobAttemptId {number} is not found in {job.name}.")
    return job.attempts[int(number)]


def _config(call: Call, name: str) -> Reply:
    return 200, call.job(name).submission.public


def _execution_type(call: Call, name: str) -> Reply:
    value = call.form().get("value")
    if value not in ("STOP", "START"):
        text = 'child "value" fails because ["value" must be one of [STOP, START]]'
        raise Refused(400, "InvalidParametersError", text)
    call.own_job(name, "execute").execute(value)
    return 202, {"status": 202, "message": f"Execute job {name} successfully."}


def _tag(call: Call, name: str) -> Reply:
    value = str(call.form().get("value"))
    if "," in value:
        text = f'child "value" fails because ["value" with value "{value}" fails to match the value pattern]'
        raise Refused(400, "InvalidParametersError", text)
    call.own_job(name, "add tag to").tags.append(value)
    return 200, {"status": 200, "message": f"Add tag {value} for job {name} successfully."}


def _ssh(call: Call, name: str) -> Reply:
    raise Refused(404, "NoJobSshInfoError", f"SSH info of job {call.job(name).name} is not found.")


def _events(call: Call, name: str) -> Reply:
    job = call.job(name)
    events = call.cluster.events.get(job.name, [])
    chosen = [each for each in events if call.query.get("type", each["type"]) == each["type"]]
    return 200, {"totalCount": len(chosen), "data": chosen}


def _task(job: Job, number: str, role: str, index: str) -> tuple[JobAttempt, Task | None]:
    attempt = _job_attempt(job, number)
    found = (each for each in attempt.tasks if (converted(each.role), str(each.index)) == (role, index))
    return attempt, next(found, None)


def _task_attempts(call: Call, name: str, number: str, role: str, index: str) -> Reply:
    job = call.job(name)
    with job.changed:
        attempt, task = _task(job, number, role, index)
        if task is None:
            where = f"jobAttemptIndex {number}, taskRoleName {role} and taskIndex {index}"
            raise Refused(404, "NoJobError", f"Task not found in Job {name} with {where}.")
        return 200, job_views.attempts_of_task(job, attempt, task)


def _logs(call: Call, name: str, number: str, role: str, index: str, of_task: str) -> Reply:
    job = call.job(name)
    with job.changed:
        task = _task(job, number, role, index)[1] if int(number) < len(job.attempts) else None
        if task is None:
            raise Refused(500, "UnknownError", "Failed to get log list")
        pod = next((each for each in task.attempts if str(each.number) == of_task), None)
        if pod is None or pod.launched is None:
            raise Refused(404, "NoTaskLogError", "Log of task is not found.")
    tail = call.query.get("tail-mode") == "true"
    return 200, {"locations": call.cluster.logs.locations(job.user, job.debug_id, role, pod.uid, tail=tail)}


def _virtual_cluster(call: Call, name: str) -> Reply:
    found = _virtual_clusters(call)[1].get(name)
    if found is None:
        raise Refused(404, "NoVirtualClusterError", f"Vc {name} not found")
    return 200, found


_JOB = r"/api/v2/jobs/([^/]+~[^/]+)"
_TASK = rf"{_JOB}/attempts/(\d+)/taskRoles/([^/]+)/taskIndex/(\d+)/attempts"
_ROUTES: Mapping[str, Callable[..., Reply]] = {
    "GET /api/v[12](?:/info)?": _info,
    "GET /api/v2/authn/info": _authn_info,
    "POST /api/v[12]/authn/basic/login": _login,
    "GET /api/v[12]/authn/oidc/login": _oidc_login,
    "DELETE /api/v2/authn/basic/logout": _logout,
    "GET /api/v2/tokens?": _tokens,
    "POST /api/v2/tokens?/application": _application_token,
    "GET /api/v2/tokens?/check": _token_check,
    "DELETE /api/v2/tokens?/([^/]+)": _revoke,
    "GET /api/v2/users/([^/]+)": _user,
    "GET /api/v2/virtual-clusters": _virtual_clusters,
    "GET /api/v2/virtual-clusters/([^/]+)": _virtual_cluster,
    "GET /api/v2/cluster/sku-types": _sku_types,
    "GET /api/v2/storages": _storages,
    "GET /api/v2/storages/([^/]+)": _storage,
    "POST /api/v2/jobs": _submit,
    "GET /api/v2/jobs": _list,
    f"GET {_JOB}": _detail,
    f"GET {_JOB}/config": _config,
    f"GET {_JOB}/events": _events,
    rf"GET {_JOB}/attempts/(\d+)": _attempt,
    f"PUT {_JOB}/executionType": _execution_type,
    f"PUT {_JOB}/tag": _tag,
    f"GET {_JOB}/ssh": _ssh,
    f"GET {_TASK}": _task_attempts,
    rf"GET {_TASK}/(\d+)/logs": _logs,
}
