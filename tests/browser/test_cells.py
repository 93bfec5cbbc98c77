"""Cells on the page: the live tree, the editor, what becomes of jobs whose cells are taken away."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_tree_shows_whose_a_cell_is_while_it_is_bound(garden, divide, open_page):
    divide(vision_vc={"V100-NODE": 1}, speech_vc={"V100-SWITCH": 1})
    page = open_page("vera", "/cells")
    tree = page.get_by_role("tree", name="Cells of V100-RACK")
    expect(tree.get_by_role("treeitem", name="north, V100-RACK: 8 free")).to_be_visible()
    job = garden.submit("sleep 600", name="has-a-node", gpus=4)
    bound = tree.get_by_role("treeitem", name=re.compile("bed-., V100-NODE: 4 used, of vision-vc"))
    expect(bound).to_be_visible()
    level = page.get_by_role("region", name="Levels of V100-RACK").get_by_role(
        "row", name=re.compile("V100-NODE")
    )
    expect(level.get_by_role("cell")).to_have_text(["V100-NODE node", "4", "2", "1", "1", "1", "0", "0"])

    # By keyboard into the cell, down to its GPUs.
    bound.focus()
    page.keyboard.press("ArrowRight")
    switch = tree.get_by_role("treeitem", name="V100-SWITCH 0: 2 used, of vision-vc")
    expect(switch).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(switch).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tree.get_by_role("treeitem", name="GPU 0: 1 used, of vision-vc")).to_be_visible()

    garden.platform.call("POST", f"jobs/{job}/cancel")
    expect(tree.get_by_role("treeitem", name="north, V100-RACK: 8 free")).to_be_visible()
    expect(tree.get_by_text("vision-vc")).to_have_count(0)


def test_an_operator_takes_a_cell_away_and_its_job_runs_on_without_a_guarantee(garden, divide, open_page):
    divide(vision_vc={"V100-NODE": 1})
    job = garden.submit("sleep 600", name="loses-its-node", gpus=4)
    garden.platform.wait_for(job, "running")
    watching = open_page("vera", f"/jobs/{job}")
    page = open_page("operator", "/cells/edit")
    page.get_by_label("V100-NODE of vision-vc", exact=True).fill("")
    page.get_by_label("V100-SWITCH of vision-vc", exact=True).fill("1")
    sentence = "1 running job of vision-vc would lose its guarantee and run on as opportunistic: job"
    expect(page.get_by_role("status").get_by_text(sentence)).to_be_visible()
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text(f"{sentence} {job}")
    dialog.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("/cells$"))
    cells = garden.platform.call("GET", "cells")
    assert cells["specification"]["virtual_clusters"] == {"vision-vc": {"cells": {"V100-SWITCH": 1}}}
    assert garden.platform.call("GET", "virtual-clusters/vision-vc")["guaranteed"] == {"V100": 2}

    expect(watching.get_by_text("Its guarantee has lapsed")).to_be_visible()
    expect(watching.locator("header").get_by_text("Running")).to_be_visible()


def test_what_does_not_fit_is_refused_at_its_field(divide, open_page):
    divide(vision_vc={"V100-NODE": 1})
    page = open_page("operator", "/cells/edit")
    page.get_by_label("V100-NODE of vision-vc", exact=True).fill("3")
    table = page.get_by_role("region", name="Cells of each virtual cluster")
    expect(table.get_by_text("3 V100-NODE are 1 too many")).to_be_visible()
    expect(page.get_by_label("V100-NODE of vision-vc", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()

    page.get_by_label("V100-NODE of vision-vc", exact=True).fill("2")
    nodes = page.get_by_label("Nodes of north")
    nodes.fill("bed-1, bed-9")
    expect(nodes).to_have_attribute("aria-invalid", "true")
    hardware = page.get_by_role("region", name="Hardware")
    expect(hardware.get_by_text("there is no node bed-9")).to_be_visible()

    # The same in the text, at its line; mended there, the form has it.
    page.get_by_role("tab", name="YAML").click()
    editor = page.get_by_label("Cells as YAML")
    expect(editor).to_contain_text("nodes: [bed-1, bed-9]")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("types: {V100-NODE: {of: V100, count: 4, node: true}}\nphysical: [")
    expect(page.get_by_role("status").get_by_text(re.compile(r"Line \d+:"))).to_be_visible()
    page.keyboard.insert_text("{type: V100-NODE, nodes: [bed-2]}]\n")
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("Nodes of bed-2")).to_have_value("bed-2")


def test_a_draft_from_the_inventory_does_not_overwrite_what_another_changed_meanwhile(divide, open_page):
    divide()
    page = open_page("operator", "/cells/edit")
    page.get_by_role("button", name="From the inventory").click()
    expect(page.get_by_text("Filled in from the inventory").first).to_be_visible()
    expect(page.get_by_label("Nodes of north")).to_have_value("bed-1, bed-2")
    page.get_by_label("V100-NODE of speech-vc", exact=True).fill("1")
    expect(page.get_by_text("The cells fit the hardware")).to_be_visible()
    divide(vision_vc={"V100-SWITCH": 2})
    expect(page.get_by_text(re.compile("operator changed the cells meanwhile"))).to_be_visible()
    page.get_by_role("button", name="Take theirs").click()
    expect(page.get_by_label("V100-SWITCH of vision-vc", exact=True)).to_have_value("2")
    expect(page.get_by_label("V100-NODE of speech-vc", exact=True)).to_have_value("")


def test_nobody_waited_longer_here_than_alone(garden, divide, open_page):
    divide(vision_vc={"V100-NODE": 1})
    garden.platform.wait_for(garden.submit("true", name="quick", gpus=4), "succeeded")
    page = open_page("vera", "/virtual-clusters")
    card = page.locator("section").filter(has_text="vision-vc")
    card.get_by_text("Cells: 1 V100-NODE").click()
    expect(card.get_by_role("list", name="Cells of vision-vc")).to_contain_text("0 in use, 1 free")
    card.get_by_role("link", name="against a private cluster").click()
    page.get_by_role("button", name="Measure now").click()
    expect(page.get_by_text("No job waited longer here than in a private cluster")).to_be_visible()
    expect(page.get_by_text(re.compile("guaranteed jobs? started within"))).to_be_visible()
    # Who is no member sees it, and asks for nothing.
    other = open_page("vera", "/virtual-clusters/speech-vc/anomalies")
    expect(other.get_by_role("heading", level=1)).to_have_text(
        "speech-vc: queueing delay compared with a private cluster"
    )
    expect(other.get_by_role("button", name="Measure now")).to_have_count(0)


def test_an_operator_asks_for_advice_and_applies_it(garden, divide, open_page):
    divide(vision_vc={"V100-SWITCH": 1})
    garden.platform.wait_for(garden.submit("true", name="small", gpus=2), "succeeded")
    page = open_page("operator", "/cells")
    page.get_by_role("link", name="Advice").click()
    page.get_by_label("V100, price per hour").fill("2")
    page.get_by_role("button", name="Add a minimum").click()
    page.get_by_label("Virtual cluster", exact=True).select_option("speech-vc")
    page.get_by_label("Cell type").select_option("V100-SWITCH")
    page.get_by_role("button", name="Ask for advice").click()
    table = page.get_by_role("region", name="Today and as advised")
    expect(table.get_by_role("rowheader", name="vision-vc")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^Mean delay in"))).to_be_visible()
    page.get_by_role("link", name="Edit first").click()
    expect(page.get_by_label("V100-SWITCH of speech-vc", exact=True)).to_have_value("1")
    page.go_back()
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("No running job would lose its guarantee.")
    dialog.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("/cells$"))
    assert garden.platform.call("GET", "cells")["specification"]["virtual_clusters"]["speech-vc"]
