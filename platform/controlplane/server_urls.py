"""DATABASE_URL and REDIS_URL, read with every option that they name; an unknown option is an error."""

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

DATABASE_EXAMPLE = "postgresql://user:password@host:5432/name?sslmode=verify-full"
REDIS_EXAMPLE = "rediss://user:password@host:6379/0?ssl_ca_certs=/etc/ssl/redis-ca.pem"
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_DATABASE_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
# Those that redis-py and Celery both understand; time-outs are ours.
_REDIS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_REDIS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_CERTIFICATE_NEEDS = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for the database at a URL as libpq reads it, with all of libpq's options.

    Raises ValueError with what is wrong; the password is never part of it.
    """
    if not url.startswith(("postgres://", "postgresql://")):
        raise ValueError(f"must look like {DATABASE_EXAMPLE}")
    try:
        options = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        said = str(error).strip()
        if not said.startswith("invalid URI query parameter"):
            # libpq quotes what it could not read, which may be the password.
            said = f"libpq cannot read it; it must look like {DATABASE_EXAMPLE}, with the user, the password "
            said += "and the options percent-encoded"
        raise ValueError(said) from None
    name = options.pop("dbname", None)
    if not name:
        raise ValueError(f"names no database; it must look like {DATABASE_EXAMPLE}")
    if options.get("sslmode", "prefer") not in _SSL_MODES:
        raise ValueError(f"sslmode={options['sslmode']} is unknown; use one of {', '.join(_SSL_MODES)}")
    stated = {key: str(options[key]) for key in _DATABASE_FILES if key in options}
    _require_files({key: path for key, path in stated.items() if path != "system"})
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": options.pop("user", ""),
        "PASSWORD": options.pop("password", ""),
        # The folder of a Unix socket too: postgresql://user@/name?host=/folder
        "HOST": options.pop("host", ""),
        "PORT": options.pop("port", ""),
        "OPTIONS": options,
    }


def redis_tls(url: str) -> dict[str, Any] | None:
    """Return the TLS options of a Redis URL as redis-py and Celery want them, None for plain redis://.

    Certificates and host names are verified unless the URL says otherwise. Raises ValueError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise ValueError(f"must look like {REDIS_EXAMPLE}, or redis://... without TLS")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _REDIS_OPTIONS:
            raise ValueError(f"option {name} is unknown; there are {', '.join(_REDIS_OPTIONS)}")
        if parts.scheme == "redis":
            raise ValueError(f"option {name} needs TLS; write rediss:// instead of redis://")
    if parts.scheme == "redis":
        return None
    needs = options.setdefault("ssl_cert_reqs", "required")
    if needs not in _CERTIFICATE_NEEDS:
        raise ValueError(f"ssl_cert_reqs={needs} is unknown; use one of {', '.join(_CERTIFICATE_NEEDS)}")
    checks = options.setdefault("ssl_check_hostname", "true")
    if checks not in ("true", "false"):
        raise ValueError(f"ssl_check_hostname={checks} is unknown; use true or false")
    _require_files({key: options[key] for key in _REDIS_FILES if key in options})
    return options | {
        "ssl_cert_reqs": _CERTIFICATE_NEEDS[needs],
        # Without a certificate there is no name to check.
        "ssl_check_hostname": checks == "true" and needs != "none",
    }


def _require_files(files: dict[str, str]) -> None:
    for option, path in files.items():
        if not Path(path).is_file():
            raise ValueError(f"{option}={path}: there is no such file")
