"""--upload: the working folder of a job is packed, uploaded once, and named in its specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import only_tenant
from allot.errors import WrongUse
from allot.output import say

if TYPE_CHECKING:
    from allot.client import Client
    from allot.packing import Packed
    from allot.specfiles import Source

UploadOption = Annotated[
    str | None,
    typer.Option(
        "--upload",
        metavar="FOLDER",
        help="Upload this folder, without files that .gitignore names, and start the job in a copy of it.",
    ),
]


@contextmanager
def packed_code(folder: str | None) -> Iterator[Packed | None]:
    """Pack the folder of --upload, if it was given, and say what became of it."""
    if folder is None:
        yield None
        return
    # Ignore files take a while to load, and most commands pack nothing.
    from allot.packing import pack

    packed = pack(folder)
    with packed.file:
        for link in packed.links_out:
            say(f"Left out {link}: the link leads out of {folder}.")
        say(f"Packed {packed.files:,} files of {folder}: {packed.bytes:,} bytes, {packed.digest[:19]}.")
        yield packed


def bring_code(
    client: Client,
    packed: Packed | None,
    sources: Sequence[Source],
    tenant: str | None,
    *,
    flag: str = "--tenant",
) -> str | None:
    """Upload the archive unless it is stored, name it in the specifications, and return their tenant.
    `flag`: the option that says which tenant it is."""
    if packed is None:
        return tenant
    for source in sources:
        if source.spec.get("code") is not None:
            raise WrongUse(f"{source.where} says where its code comes from; leave out `code`, or --upload.")
    tenant = tenant or _only_tenant(client, flag)
    if client.archives.stored(tenant, packed.digest) is None:
        client.archives.store(tenant, packed.digest, packed.file)
        say(f"Uploaded it to tenant {tenant}.")
    for source in sources:
        source.spec["code"] = {"archive": packed.digest}
    return tenant


def _only_tenant(client: Client, flag: str) -> str:
    names = [each["name"] for each in client.me()["tenants"] if each["role"] != "viewer"]
    return only_tenant(names, "An upload is for one tenant.", flag=flag)
