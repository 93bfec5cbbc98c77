"""The map, nodes, virtual clusters and quotas; the page over a restart of the server."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.processes import signal_process

pytestmark = pytest.mark.browser


def test_the_map_shows_who_is_where_and_changes_by_itself(garden, open_page):
    page = open_page("vera")
    tile = page.locator("div").filter(has_text=re.compile(r"^GPUs in use")).last
    expect(tile).to_contain_text("0 of 8")
    job = garden.submit("sleep 600", name="on-the-map", gpus=3)
    expect(tile).to_contain_text("3 of 8")
    expect(page.get_by_label("Legend")).to_contain_text("vision 3")

    # By keyboard: the first plot is found, and Enter leads to the job on it.
    page.get_by_role("application").focus()
    status = page.get_by_role("status").filter(has_text="on-the-map")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        if status.count():
            break
    expect(status).to_contain_text("Running, job")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/jobs/{job}$"))


def test_the_map_is_a_table_for_those_who_prefer_it(garden, open_page):
    garden.platform.wait_for(garden.submit("sleep 600", name="in-the-table", gpus=2), "running")
    page = open_page("vera")
    page.get_by_role("radio", name="Table").click()
    table = page.get_by_role("region", name="GPUs by node")
    expect(table).to_contain_text("in-the-table")
    expect(table).to_contain_text("2 of 4")


def test_jobs_with_parts_of_a_gpu_are_on_the_sharing_page_and_on_the_map(garden, open_page):
    for name, part in (("three-tenths", 0.3), ("half", 0.5)):
        garden.platform.wait_for(garden.submit("sleep 600", name=name, gpus=part), "running")
    page = open_page("vera", "/sharing")
    rows = page.get_by_role("region", name="Shared GPUs").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("80 %")
    expect(rows.filter(has_text="half")).to_contain_text(re.compile("0.5.*8 GiB.*not measured"))
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_label("Legend")).to_contain_text("Shared, filled by parts 1")


def test_an_operator_cordons_a_node_and_everybody_sees_it_at_once(open_page):
    watching = open_page("vera", "/nodes")
    operating = open_page("operator", "/nodes/bed-2")
    row = watching.get_by_role("row").filter(has_text="bed-2")
    expect(row).to_contain_text("Ready")
    operating.get_by_role("button", name="Cordon").click()
    dialog = operating.get_by_role("dialog")
    dialog.get_by_label("Why").fill("new fans")
    dialog.get_by_role("button", name="Cordon").click()
    expect(row).to_contain_text("Cordoned")
    expect(operating.get_by_text("operator took it out of service, just now: new fans.")).to_be_visible()
    operating.get_by_role("button", name="Resume", exact=True).click()
    expect(row).to_contain_text("Ready")


def test_a_new_node_shows_the_file_for_its_agent(garden, open_page):
    page = open_page("operator", "/nodes")
    page.get_by_role("button", name="Add a node").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("bed 9")
    dialog.get_by_role("button", name="Add the node").click()
    expect(dialog.locator("[aria-invalid=true]")).to_have_value("bed 9")
    dialog.get_by_label("Name").fill("bed-9")
    dialog.get_by_role("button", name="Add the node").click()
    file = dialog.get_by_role("region", name="1. Save as bed-9.json").locator("pre")
    expect(file).to_have_text(re.compile(r'"token": "altn_\S{20,}"'))
    dialog.get_by_role("radio", name="Simulated GPUs").click()
    shown = json.loads(file.text_content())
    assert (shown["node"], shown["server_url"]) == ("bed-9", garden.platform.url)
    assert shown["inventory"]["kind"] == "simulated"
    expect(dialog.get_by_text("python -m nodeagent --config bed-9.json")).to_be_visible()
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_role("row").filter(has_text="bed-9")).to_contain_text("Never seen")
    garden.platform.call("DELETE", "nodes/bed-9")


def test_guarantees_are_edited_and_what_does_not_fit_is_refused(garden, open_page):
    page = open_page("operator", "/virtual-clusters")
    page.get_by_role("button", name="Edit speech-vc").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^V100")).fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label(re.compile("^V100")).fill("1")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("0 of 1")).to_be_visible()
    assert garden.platform.call("GET", "virtual-clusters/speech-vc")["guaranteed"] == {"V100": 1}
    garden.platform.call("PUT", "virtual-clusters/speech-vc", {"guaranteed": {"V100": 2}})


def test_the_second_of_two_who_edit_a_virtual_cluster_sees_the_first_ones_change_and_keeps_his_own(
    garden, open_page
):
    pages = [open_page("operator", "/virtual-clusters", own_session=True) for _ in range(2)]
    for page in pages:
        page.get_by_role("button", name="Edit speech-vc").click()
        expect(page.get_by_role("dialog").get_by_role("button", name="Save")).to_be_enabled()
    first, second = (page.get_by_role("dialog") for page in pages)
    try:
        first.get_by_label("Title").fill("Speech team")
        first.get_by_role("button", name="Save").click()
        expect(first).to_have_count(0)
        second.get_by_label(re.compile("^V100")).fill("1")
        second.get_by_role("button", name="Save").click()
        expect(second.get_by_role("alert")).to_contain_text("It has changed since you read it.")
        kept = garden.platform.call("GET", "virtual-clusters/speech-vc")
        assert (kept["title"], kept["guaranteed"]) == ("Speech team", {"V100": 2})
        second.get_by_role("button", name="Load the new state").click()
        expect(second.get_by_label("Title")).to_have_value("Speech team")
        expect(second.get_by_label(re.compile("^V100"))).to_have_value("1")
        second.get_by_role("button", name="Save").click()
        expect(second).to_have_count(0)
        both = garden.platform.call("GET", "virtual-clusters/speech-vc")
        assert (both["title"], both["guaranteed"]) == ("Speech team", {"V100": 1})
    finally:
        garden.platform.call("PUT", "virtual-clusters/speech-vc", {"title": "", "guaranteed": {"V100": 2}})


def test_a_quota_is_set_and_holds_the_next_job_back(garden, open_page):
    operating = open_page("operator", "/tenants/vision")
    operating.get_by_role("button", name="Edit the quota").click()
    operating.get_by_label("All GPUs together").fill("1")
    operating.get_by_role("button", name="Save").click()
    expect(operating.get_by_text("0 of 1")).to_be_visible()
    try:
        garden.platform.wait_for(garden.submit("sleep 600", name="within"), "running")
        waiting = garden.submit("sleep 600", name="beyond")
        page = open_page("vera", f"/jobs/{waiting}")
        expect(page.get_by_text(re.compile("Tenant vision has a quota of 1"))).to_be_visible()
    finally:
        garden.platform.call("PUT", "tenants/vision/quota", {"limits": {}})


def test_the_page_recovers_by_itself_after_the_server_died(garden, open_page):
    job = garden.submit("sleep 600", name="outlives-the-server")
    garden.platform.wait_for(job, "running")
    page = open_page("vera", f"/jobs/{job}")
    side = page.get_by_role("complementary")
    expect(side.get_by_text("Live", exact=True)).to_be_visible()
    assert signal_process(garden.platform.pid_of("web"))
    expect(side.get_by_text("Offline, retrying")).to_be_visible()
    expect(side.get_by_text("Live", exact=True)).to_be_visible()
    garden.platform.call("POST", f"jobs/{job}/cancel")
    expect(page.locator("header").get_by_text("Cancelled")).to_be_visible()


def test_an_operator_reserves_gpus_in_the_calendar_and_the_tenant_sees_them(open_page):
    page = open_page("operator", "/calendar")
    page.get_by_role("button", name="Reserve GPUs").click()
    dialog = page.get_by_role("dialog")
    begin = datetime.now(UTC) + timedelta(days=9)
    filled = {
        "Name": "deadline",
        "Tenant": "vision",
        "GPU model": "V100",
        "GPUs": "800",
        "Start": f"{begin:%Y-%m-%dT18:00}",
        "End": f"{begin + timedelta(days=1):%Y-%m-%dT08:00}",
    }
    for label, text in filled.items():
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_role("button", name="Reserve").click()
    expect(dialog.locator("[aria-invalid=true]")).to_have_value("800")
    dialog.get_by_label("GPUs", exact=True).fill("4")
    dialog.get_by_role("button", name="Reserve").click()
    row = page.get_by_role("region", name="Reservations").get_by_role("row").filter(has_text="deadline")
    expect(row).to_contain_text(re.compile(r"Announced.*vision.*4 V100.*bed-\d"))

    seen = open_page("vera", "/calendar").get_by_role("row").filter(has_text="deadline")
    expect(seen).to_contain_text("4 V100")
    expect(seen.get_by_role("button")).to_have_count(0)
    row.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel it").click()
    expect(row).to_have_count(0)
