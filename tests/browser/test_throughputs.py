"""Throughputs on the page: corrected, imported, exported; why a job is on its GPU model; targets."""

import re

import pytest
from playwright.sync_api import expect

from tests.patience import until

pytestmark = pytest.mark.browser

HEADER = "application,gpus,gpu_model,rate\n"


@pytest.fixture
def declared(garden):
    """A running job that says how fast it is."""
    throughputs = {"V100": 320, "K80": 80}
    job = garden.submit(
        "sleep 600",
        name="declared",
        application="translate",
        throughput=throughputs,
        labels={"emulated-speed": "transformer"},
    )
    garden.platform.wait_for(job, "running")
    return job


def test_an_admin_corrects_a_throughput_and_takes_the_correction_back(declared, open_page):
    page = open_page("vera", "/throughputs")
    cell = page.get_by_role("button", name=re.compile("^translate of vision on 1 V100"))
    expect(cell).to_have_accessible_name("translate of vision on 1 V100: 320, declared")
    cell.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Declared in the jobs' specifications.")).to_be_visible()
    value = dialog.get_by_label("Samples per second of the whole gang")
    value.fill("1e300")
    dialog.get_by_role("button", name="Correct", exact=True).click()
    expect(value).to_have_attribute("aria-invalid", "true")
    value.fill("250")
    dialog.get_by_label("Reason").fill("A slow disk")
    dialog.get_by_role("button", name="Correct", exact=True).click()
    expect(cell).to_have_accessible_name("translate of vision on 1 V100: 250, corrected")

    cell.click()
    expect(dialog.get_by_text("“A slow disk”")).to_be_visible()
    expect(dialog.get_by_text(re.compile("^by user vera"))).to_be_visible()
    dialog.get_by_role("button", name="Remove the correction").click()
    expect(cell).to_have_accessible_name("translate of vision on 1 V100: 320, declared")


def test_who_is_no_admin_sees_throughputs_and_changes_none(declared, open_page):
    page = open_page("victor", "/throughputs?application=translate")
    page.get_by_role("button", name=re.compile("^translate of vision on 1 V100")).click()
    expect(page.get_by_text("Admins of vision and operators can correct it.")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_role("button", name="Import")).to_have_count(0)


def test_a_file_is_tried_before_it_is_taken_and_every_wrong_line_is_named(garden, open_page):
    page = open_page("vera", "/throughputs")
    page.get_by_role("button", name="Import").click()
    dialog = page.get_by_role("dialog")

    def choose(*lines):
        content = (HEADER + "".join(f"{line}\n" for line in lines)).encode()
        dialog.get_by_label("File").set_input_files(
            files=[{"name": "throughputs.csv", "mimeType": "text/csv", "buffer": content}]
        )

    choose("summarise,1,V100,fast", "summarise,1,K80,20")
    wrong = dialog.get_by_role("list", name="Wrong lines")
    expect(wrong.get_by_role("listitem")).to_have_count(1)
    expect(wrong).to_contain_text("line 2")
    expect(dialog.get_by_role("button", name="Import", exact=True)).to_be_disabled()

    choose("summarise,1,V100,100", "summarise,1,K80,20")
    expect(dialog.get_by_role("status")).to_have_text("2 throughputs would be added.")
    expect(dialog.get_by_text(re.compile("^No node of this cluster has K80"))).to_be_visible()
    assert garden.platform.call("GET", "throughputs?application=summarise")["results"] == []
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="summarise of vision on 1 K80: 20, corrected")).to_be_visible()

    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert "summarise,1,K80,20" in download.value.path().read_text()
    for model in ("V100", "K80"):
        query = f"tenant=vision&application=summarise&gpu_model={model}&gpus=1"
        garden.platform.call("DELETE", f"throughputs/correction?{query}")


def test_a_policy_is_chosen_with_its_objective_and_its_targets_are_seen(garden, declared, open_page):
    page = open_page("operator", "/virtual-clusters")
    page.get_by_role("button", name="Edit vision-vc").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Policy", exact=True).locator("select").first.select_option("gavel")
    dialog.get_by_label("Objective").select_option("water_filling")
    dialog.get_by_label("Parts").fill("0")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text(re.compile("parts must be at least 1")).first).to_be_visible()
    dialog.get_by_label("Parts").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    chosen = garden.platform.call("GET", "virtual-clusters/vision-vc")
    try:
        assert chosen["policy_plugin"] == {"name": "gavel", "parameters": {"objective": "water_filling"}}
        card = page.locator("section").filter(has_text="vision-vc")
        expect(card).to_contain_text("gavel: objective water filling")

        targets = "virtual-clusters/vision-vc/targets"
        until(lambda: garden.platform.call("GET", targets)["objective"], "the policy to decide")
        seen = open_page("vera", f"/jobs/{declared}")
        why = seen.locator("section").filter(has_text="Why this GPU model")
        expect(why).to_contain_text("Its target is 100 % of the time on V100.")
        expect(why).to_contain_text("Emulated throughput")
        row = why.get_by_role("row", name=re.compile("^V100"))
        expect(row).to_contain_text("runs now")
        expect(row).to_contain_text("320 samples/s")
        expect(row).to_contain_text("declared")

        card.get_by_role("link", name="by GPU model").click()
        table = page.get_by_role("region", name="Targets by job")
        expect(table.get_by_role("row", name=re.compile("^declared"))).to_contain_text("100 %")
        tenants = page.get_by_role("region", name="Targets by tenant")
        expect(tenants.get_by_role("row", name=re.compile("^vision"))).to_contain_text("1")
    finally:
        garden.platform.call("PUT", "virtual-clusters/vision-vc", {"policy_plugin": {"name": "fifo"}})


def test_the_policy_of_spare_gpus_is_chosen_from_the_list(garden, open_page):
    page = open_page("operator", "/virtual-clusters")
    spare = page.locator("section").filter(has_text="Spare GPUs")
    spare.get_by_role("combobox", name="Policy of opportunistic jobs").select_option("gavel")
    spare.get_by_label("Objective").select_option("max_sum_throughput")
    spare.get_by_role("button", name="Save").click()
    saved = "Saved the settings of spare GPUs and the limits on preemption."
    expect(page.get_by_text(saved, exact=True)).to_be_visible()
    settings = garden.platform.call("GET", "cluster/settings")
    chosen = {"name": "gavel", "parameters": {"objective": "max_sum_throughput"}}
    assert settings["spare_policy_plugin"] == chosen
    garden.platform.call("PATCH", "cluster/settings", {"spare_policy_plugin": {"name": "fifo"}})
