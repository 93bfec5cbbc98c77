"""What a job leaves in its checkpoint folder, found and downloaded in a browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LEAVES = """
cd "$ALLOT_CHECKPOINT_DIR" && mkdir -p "run 1/step-100" && printf weights > "run 1/step-100/model & co.pt"
ln -s "run 1" latest; ln -s /etc/passwd passwd
"""


def test_files_of_a_job_are_found_in_their_folders_and_downloaded(garden, open_page, tmp_path: Path):
    job = garden.submit(LEAVES, name="leaves-files")
    garden.platform.wait_for(job, "succeeded")
    page = open_page("victor", f"/jobs/{job}")
    page.get_by_role("tab", name="Files").click()
    expect(page.get_by_role("row", name="latest")).to_contain_text("link, not followed")
    expect(page.get_by_title("Download")).to_have_count(0)
    page.get_by_role("link", name="run 1/").click()
    page.get_by_role("link", name="step-100/").click()
    # Where one is stands in the address: it can be sent to somebody, and gone back from.
    expect(page.get_by_role("row", name="model & co.pt")).to_contain_text("7 B")
    page.reload()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="model & co.pt").click()
    downloading.value.save_as(tmp_path / "model.pt")
    assert (tmp_path / "model.pt").read_bytes() == b"weights"
    assert downloading.value.suggested_filename == "model & co.pt"
    page.get_by_role("link", name="run 1", exact=True).click()
    expect(page.get_by_role("link", name="step-100/")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("model & co.pt")).to_be_visible()


def test_a_job_that_left_nothing_says_where_it_could(garden, open_page):
    job = garden.submit("true", name="leaves-nothing")
    garden.platform.wait_for(job, "succeeded")
    page = open_page("vera", f"/jobs/{job}?tab=files", width=390)
    expect(page.get_by_text("$ALLOT_CHECKPOINT_DIR")).to_be_visible()


def test_a_folder_of_the_users_machine_is_what_a_job_starts_in(garden, open_page, tmp_path: Path):
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / ".gitignore").write_text("*.pt\n")
    (project / "large.pt").write_text("x" * 1_000)
    (project / "lib" / "words.txt").write_text("hello from the folder\n")
    page = open_page("vera", "/submit")
    choose = page.get_by_role("button", name="Upload a folder")
    with page.expect_file_chooser() as choosing:
        choose.click()
    choosing.value.set_files(project)
    expect(page.get_by_text("The job starts in a copy of project: 2 files")).to_be_visible()
    page.get_by_role("textbox", name="Name", exact=True).fill("reads-its-folder")
    page.get_by_role("textbox", name="Command").fill("cat lib/words.txt")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="reads-its-folder")).to_be_visible()
    job = int(page.url.rsplit("/", 1)[1].partition("?")[0])
    garden.platform.wait_for(job, "succeeded")
    assert garden.platform.call("GET", f"jobs/{job}")["code"]["files"] == 2
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_role("log")).to_contain_text("hello from the folder")
