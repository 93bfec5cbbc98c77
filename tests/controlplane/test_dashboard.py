"""The page, its files and the headers around them."""

import asyncio
import os
import warnings
from pathlib import Path

import httpx
import pytest
from django.core.asgi import get_asgi_application
from django.test import Client

INDEX = '<!doctype html><script type="module" src="/static/assets/index-BkQ3x_8Z.js"></script>'


@pytest.fixture
def built(settings, tmp_path: Path) -> Path:
    """A dashboard as the bundler leaves it."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "mark.svg").write_text("<svg/>")
    (tmp_path / "assets" / "index-BkQ3x_8Z.js").write_text("export {}")
    settings.FRONTEND_DIST = tmp_path
    settings.STATICFILES_DIRS = [tmp_path]
    settings.WHITENOISE_AUTOREFRESH = False  # As in an installation.
    return tmp_path


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/17", "/nodes/v100-a1", "/sign-in?next=/jobs"])
def test_every_page_is_the_same_file_and_never_cached(built, path):
    response = Client().get(path)
    assert (response.status_code, response.content.decode()) == (200, INDEX)
    assert response["Content-Type"].startswith("text/html")
    assert response["Cache-Control"] == "no-store"
    policy = response["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_hashed_files_are_cached_for_ever_and_others_are_not(built):
    hashed = Client().get("/static/assets/index-BkQ3x_8Z.js")
    assert hashed.status_code == 200
    assert "immutable" in hashed["Cache-Control"]
    assert hashed["Content-Type"].startswith("text/javascript")
    assert "immutable" not in Client().get("/static/mark.svg")["Cache-Control"]


def test_a_dashboard_that_is_built_while_the_server_runs_is_served_whole(built):
    client, assets = Client(), built / "assets"
    former = "/static/assets/index-BkQ3x_8Z.js"
    assert client.get(former).content == b"export {}"
    assert client.get("/static/mark.svg").content == b"<svg/>"
    (assets / "index-BkQ3x_8Z.js").unlink()
    (assets / "index-Nn7yq_2A.js").write_text("export default 2")
    (built / "mark.svg").write_text("<svg></svg>")
    index = built / "index.html"
    index.write_text(INDEX.replace("BkQ3x_8Z", "Nn7yq_2A"))
    os.utime(index, ns=(0, index.stat().st_mtime_ns + 1))
    assert client.get("/static/assets/index-Nn7yq_2A.js").content == b"export default 2"
    assert client.get(former).status_code == 404
    mark = client.get("/static/mark.svg")
    assert (mark.content, mark["Content-Length"]) == (b"<svg></svg>", "11")


def test_a_dashboard_that_is_first_built_while_the_server_runs_is_served(settings, tmp_path):
    settings.FRONTEND_DIST = tmp_path / "dist"
    settings.STATICFILES_DIRS = [settings.FRONTEND_DIST]
    client = Client()
    assert client.get("/static/mark.svg").status_code == 404
    settings.FRONTEND_DIST.mkdir()
    (settings.FRONTEND_DIST / "mark.svg").write_text("<svg/>")
    assert client.get("/static/mark.svg").content == b"<svg/>"


def test_files_under_asgi_raise_no_warning(built):
    async def fetch() -> httpx.Response:
        transport = httpx.ASGITransport(app=get_asgi_application())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/static/assets/index-BkQ3x_8Z.js")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(fetch()).text == "export {}"


def test_a_page_that_is_not_built_says_how_to_build_it(settings, tmp_path):
    settings.FRONTEND_DIST = tmp_path
    response = Client().get("/jobs")
    assert response.status_code == 503
    assert b"make" in response.content


def test_no_file_outside_the_folder_is_served(built):
    for path in (
        "/static/\0",
        "/static/assets",
        "/static/../pyproject.toml",
        "/static/%2e%2e/pyproject.toml",
        "/static/index.html/..",
    ):
        assert b"[project]" not in Client().get(path).content


def test_other_methods_than_reading_are_refused(built):
    assert Client().post("/jobs").status_code == 405


@pytest.mark.parametrize("path", ["/", "/api/v1/session", "/healthz", "/static/nothing.js", "/api/nothing"])
@pytest.mark.django_db
def test_security_headers_are_on_every_answer(built, path):
    response = Client().get(path)
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


@pytest.mark.django_db
def test_answers_of_the_api_are_not_kept_by_browsers():
    assert Client().get("/api/v1/session")["Cache-Control"] == "no-store"
