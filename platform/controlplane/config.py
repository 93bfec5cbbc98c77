"""Everything about an installation that varies, read once from the environment.

`manage.py up` writes the same variables to `<home>/env`, so that any other command run beside a
started platform (`manage.py replay_round 7`) meets the same servers without exporting anything.
"""

import ipaddress
import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from controlplane import server_urls
from tenants.audit.receivers import key_of, receivers_of
from tenants.sealing import read_keys

_PACKAGES = Path(__file__).resolve().parents[1]
_IS_SOURCE = (_PACKAGES.parent / "manage.py").is_file()
#: The source folder; for an installed wheel, the folder that it is in.
PROJECT_ROOT = _PACKAGES.parent if _IS_SOURCE else Path.cwd()
#: Where Python finds the server when it is not installed.
SOURCE_PATH = [_PACKAGES, PROJECT_ROOT] if _IS_SOURCE else []
#: The built dashboard, and the demonstration's jobs: the wheel has them beside this module.
DASHBOARD = PROJECT_ROOT / "frontend" / "dist" if _IS_SOURCE else _PACKAGES / "controlplane" / "dist"
DOCUMENTATION = PROJECT_ROOT / "site" if _IS_SOURCE else _PACKAGES / "controlplane" / "site"
EXAMPLES = PROJECT_ROOT / "examples" if _IS_SOURCE else _PACKAGES / "controlplane" / "examples"
#: How mail servers are spoken to, with their usual ports.
MAIL_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


def home() -> Path:
    """Folder of the embedded installation: databases, secrets, agents' work (default `.allot/`)."""
    return Path(os.environ.get("ALLOT_HOME", PROJECT_ROOT / ".allot")).absolute()


class Config(BaseSettings):
    """Settings of the control plane; an unknown or unusable value stops the start with its name."""

    model_config = SettingsConfigDict(env_prefix="ALLOT_", extra="ignore")

    database_url: str = Field(validation_alias="DATABASE_URL")
    redis_url: str = Field(validation_alias="REDIS_URL")
    # By which `manage.py migrate` reaches the same database, as the role that owns the tables; empty: as
    # DATABASE_URL does.
    migration_database_url: str = ""
    # Signs sessions, and keys the hashes of API and node tokens: changing it signs all users out.
    secret_key: SecretStr
    # Seal the secrets of jobs, which the database holds: base64 of 32 bytes each, separated by commas. The
    # first one seals, all of them open (docs/secrets.md). Empty: no secret can be stored.
    secrets_keys: SecretStr = SecretStr("")
    debug: bool = False
    # Names by which browsers and agents reach this server, comma-separated (Host and Origin allow-list).
    hosts: str = "localhost,127.0.0.1,[::1]"
    # Served over https behind a proxy: cookies are then marked Secure.
    secure: bool = False
    # Addresses and networks of proxies, comma-separated. Their X-Forwarded-For and X-Forwarded-Proto are
    # believed, and no others. None: there is no proxy.
    trusted_proxies: str = ""

    # How many processes answer at the web server's port. Limits below that say "at once" hold for each
    # process.
    web_processes: int = Field(default=1, ge=1, le=64)
    round_seconds: float = Field(default=5.0, gt=0)
    # How long a round may take before another may be started over it (it is then fenced).
    round_lease_seconds: float = Field(default=10.0, gt=0)
    # The engine that decides rounds is kept from round to round. After this many of them the same facts are
    # decided by a new one, too, which takes its place; should their plans differ, the new one's holds.
    round_compared_every: int = Field(default=100, ge=1)
    # The most time of all computations of policies in a round together; then their views get a cheap policy.
    solver_budget_seconds: float = Field(default=2.0, gt=0, validate_default=True)
    # The most time of the policy and the placer of one view in a round, a preview or a round of a forecast,
    # waiting for their computations included; then the view gets a cheap policy and placer.
    view_budget_seconds: float = Field(default=8.0, gt=0, validate_default=True)
    # The process in which they compute: how long its start may take, its address space, and after how many
    # computations, or above how much memory, it is restarted.
    solver_start_seconds: float = Field(default=5.0, gt=0)
    solver_memory_bytes: int = Field(default=4 * 1024**3, ge=512 * 1024**2)
    solver_recycle_calls: int = Field(default=1_000, ge=1)
    solver_recycle_bytes: int = Field(default=1024**3, ge=256 * 1024**2)
    # A node's right to run what it was given, renewed by each report. Long enough that a restart of the
    # server or its database stops no job: stopping begins a quarter of the lease before it ends.
    node_lease_seconds: float = Field(default=30.0, gt=1)
    # The server takes GPUs back only this long after the lease ended, so that the agent, whose own
    # deadline is the lease itself, has stopped everything by then even with an imperfect clock.
    node_lease_margin_seconds: float = Field(default=5.0, ge=0)
    # A node that health cordoned returns when its checks have all been ok for this long, at most this often
    # within a day.
    node_return_seconds: float = Field(default=300.0, gt=0)
    node_returns_per_day: int = Field(default=3, ge=0)
    rounds_kept: int = Field(default=2_000, ge=1)
    # Lines of the ledger are deleted after this many days, and in no other way.
    ledger_days_kept: int = Field(default=400, ge=1)
    # Entries of the audit log are deleted after this many days, and in no other way.
    audit_days_kept: int = Field(default=400, ge=30)
    # Events are deleted after this many days, those of a job not before it has been over for as long.
    # Comparisons with private clusters read those of a month.
    event_days_kept: int = Field(default=400, ge=31)
    # Days after a job's end when its progress lines are thinned to as many as its page shows.
    progress_days_kept: float = Field(default=30, gt=0)
    # Where the audit log is forwarded to, addresses separated by spaces: syslog+tls://host:6514?ca=FILE,
    # syslog+tcp://host:601, syslog+udp://host:514, https://host/path; and the secret that signs webhooks.
    audit_forward: str = ""
    audit_forward_secret: SecretStr = Field(default=SecretStr(""), validate_default=True)
    request_bytes: int = Field(default=1_000_000, ge=10_000)
    # Queued and running jobs of each tenant, unless operators allow it another number.
    unfinished_jobs_per_tenant: int = Field(default=20_000, ge=1)
    # Jobs of each user that wait, in each tenant: each round reads all that wait.
    waiting_jobs_per_user: int = Field(default=5_000, ge=1)
    # Live streams of each user at once, from whatever address; and how many messages a second are taken from
    # one of them.
    sockets_per_user: int = Field(default=64, ge=1)
    socket_messages_per_second: float = Field(default=20.0, gt=0)
    # Requests that take long (searches, downloads, exports, series, many jobs at once): how many are worked
    # on at once, how many for one user, and all users of a tenant; and how many more of a user's may wait.
    heavy_requests: int = Field(default=4, ge=1)
    heavy_requests_per_user: int = Field(default=2, ge=1)
    heavy_requests_per_tenant: int = Field(default=3, ge=1)
    heavy_requests_waiting: int = Field(default=8, ge=0)
    # Connections, and as many WebSockets, from one address; this machine and trusted proxies have no limit.
    connections_per_address: int = Field(default=256, ge=1)
    # How many other requests of a user may wait for their turn.
    requests_waiting: int = Field(default=200, ge=1)
    log_bytes_per_attempt: int = Field(default=16 * 1024 * 1024, ge=65_536)
    # Retention of output: days after an attempt's end, and bytes of the whole platform and of each tenant
    # (0: as many as there are). Beyond them the output of the attempts that ended first is removed.
    log_days_kept: float = Field(default=30, gt=0)
    log_bytes_kept: int = Field(default=50 * 1024**3, ge=0)
    log_bytes_kept_of_tenant: int = Field(default=0, ge=0)
    # Working folders that people upload (docs/code.md). Where the archives lie, for the web server and the
    # worker; empty: in the home folder. The most of one: bytes packed and unpacked, and files. The most bytes
    # for each tenant, and for all. Days after their last use when those are removed that no job needs.
    archives_folder: str = ""
    archive_bytes: int = Field(default=256 * 1024**2, ge=1024)
    archive_unpacked_bytes: int = Field(default=2 * 1024**3, ge=1024)
    archive_files: int = Field(default=100_000, ge=1)
    archive_bytes_of_tenant: int = Field(default=5 * 1024**3, ge=1024)
    archive_bytes_of_all: int = Field(default=50 * 1024**3, ge=1024)
    archive_days_kept: float = Field(default=7, gt=0)
    # Where this server sees the `checkpoint_folder` of the nodes, in which jobs leave files for their people
    # (docs/artefacts.md). Empty: it does not see it.
    checkpoint_folder: str = ""
    # Where people reach the pages, for links in mails and webhooks: https://gpus.example.org. `manage.py up`
    # fills in its own address.
    public_url: str = "http://localhost:8000"
    # Mail: smtp://user:password@host:port, smtp+starttls://... or smtps://...; empty: none is sent.
    email_url: SecretStr = SecretStr("")
    email_from: str = "Allotment <allotment@localhost>"
    # Let webhooks go to addresses that only this server can reach, and over http. A user who may make a
    # webhook can then send requests to whatever listens there.
    webhook_private_addresses: bool = False
    # Pages of jobs (notebooks) are tenants' code: they are seen at this port of the server's host, or at a
    # host name of their own, "notebooks.example.org"; "*.notebooks.example.org": each at one of its own.
    proxy_port: int = Field(default=0, ge=0, le=65_535)
    proxy_host: str = ""
    # Sessions inside jobs (`allot exec`, ports): how long one may be idle, how much may go through it, and
    # how many there may be at once; and whether operators get into jobs of tenants they are not members of.
    session_idle_seconds: float = Field(default=3_600.0, gt=0)
    session_bytes: int = Field(default=16 * 1024**3, ge=1024**2)
    sessions_per_user: int = Field(default=64, ge=1)
    sessions_per_job: int = Field(default=128, ge=1)
    operators_enter_jobs: bool = False
    # How long API tokens last unless something else is chosen, the longest that can be chosen, and whether it
    # can be chosen that one never expires.
    token_days: int = Field(default=90, ge=1)
    token_days_most: int = Field(default=365, ge=1, le=3_650, validate_default=True)
    tokens_may_never_expire: bool = False
    # Accept nodes on which nothing keeps jobs apart, even if other machines reach this server.
    unsafe_jobs: bool = False
    # Reads GET /metrics and nothing else, for a collector that has no account; empty: operators only.
    metrics_token: SecretStr = SecretStr("")

    @field_validator("database_url", "migration_database_url")
    @classmethod
    def _database_server(cls, value: str, known: ValidationInfo) -> str:
        if value or known.field_name == "database_url":
            server_urls.database(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_server(cls, value: str) -> str:
        server_urls.redis_tls(value)
        return value

    @property
    def takes_unisolated_nodes(self) -> bool:
        """Whether nodes may run jobs without isolation: where all users are at this machine, or by choice."""
        return self.unsafe_jobs or all(is_loopback(name.strip()) for name in self.hosts.split(",") if name)

    @field_validator("solver_budget_seconds", "view_budget_seconds")
    @classmethod
    def _within_the_lease(cls, value: float, known: ValidationInfo) -> float:
        lease_seconds = known.data.get("round_lease_seconds")
        if lease_seconds is not None and value >= lease_seconds:
            raise ValueError(f"must be less than ALLOT_ROUND_LEASE_SECONDS, {lease_seconds:g}")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for proxy in filter(None, (part.strip() for part in value.split(","))):
            try:
                network = ipaddress.ip_network(proxy)
            except ValueError:
                said = (
                    "is not an address or network; expected 10.0.0.5 or 10.0.0.0/24, and several with commas"
                )
                raise ValueError(f"{proxy!r} {said}") from None
            if network.prefixlen == 0:
                raise ValueError(f"{proxy!r} contains all addresses: name the proxies")
        return value

    @property
    def archives(self) -> Path:
        """Return the folder of the archives that tenants have uploaded."""
        return Path(self.archives_folder) if self.archives_folder else home() / "archives"

    @property
    def proxies(self) -> list[str]:
        return [part.strip() for part in self.trusted_proxies.split(",") if part.strip()]

    @field_validator("token_days_most")
    @classmethod
    def _not_below_the_usual(cls, value: int, known: ValidationInfo) -> int:
        usual = known.data.get("token_days")
        if usual is not None and value < usual:
            raise ValueError(f"must be at least ALLOT_TOKEN_DAYS, {usual}")
        return value

    @field_validator("public_url")
    @classmethod
    def _without_end(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must look like https://gpus.example.org")
        return value.rstrip("/")

    @field_validator("email_url")
    @classmethod
    def _mail_server(cls, value: SecretStr) -> SecretStr:
        text = value.get_secret_value()
        if text and (urlsplit(text).scheme not in MAIL_PORTS or not urlsplit(text).hostname):
            raise ValueError("must look like smtp+starttls://user:password@mail.example.org:587")
        return value

    @field_validator("audit_forward")
    @classmethod
    def _receivers(cls, value: str) -> str:
        receivers_of(value)
        return value

    @field_validator("audit_forward_secret")
    @classmethod
    def _signs(cls, value: SecretStr, known: ValidationInfo) -> SecretStr:
        if any(receiver.is_webhook for receiver in receivers_of(known.data.get("audit_forward", ""))):
            key_of(value.get_secret_value())
        return value

    @field_validator("metrics_token")
    @classmethod
    def _empty_or_long_enough(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and len(value.get_secret_value()) < 16:
            raise ValueError("needs at least 16 characters, or none")
        return value

    @field_validator("secrets_keys")
    @classmethod
    def _keys(cls, value: SecretStr) -> SecretStr:
        read_keys(value.get_secret_value())
        return value

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 32:
            raise ValueError("needs at least 32 random characters; `manage.py up` makes one for you")
        return value


def is_loopback(host: str) -> bool:
    """Whether only this machine itself reaches a server by this name or address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@lru_cache(maxsize=1)
def config() -> Config:
    try:
        return Config(_env_file=home() / "env")  # type: ignore[call-arg]
    except ValidationError as error:
        # Not pydantic's error: `manage.py help` goes on after this one.
        raise ImproperlyConfigured(_explanation(error)) from None


def _explanation(error: ValidationError) -> str:
    problems = []
    for problem in error.errors():
        field = str(problem["loc"][0])
        name = field if field.isupper() else f"ALLOT_{field.upper()}"
        said = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{name}: {'not set' if problem['type'] == 'missing' else said}")
    return (
        f"{'; '.join(problems)}. Set it in the environment, or start the platform once by "
        f"`manage.py up`, which writes {home() / 'env'}."
    )
