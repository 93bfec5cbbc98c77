"""A job from the form to its end, seen in a browser that is never reloaded."""

import re

import pytest
from playwright.sync_api import expect

from tests.patience import until

pytestmark = pytest.mark.browser


def test_a_job_submitted_by_form_is_seen_to_run_and_to_succeed(open_page):
    page = open_page("vera", "/submit")
    page.get_by_role("button", name="Digits, one GPU").click()
    page.get_by_label("Name", exact=True).fill("from-the-form")
    page.get_by_label("Command").fill('for step in 1 2 3; do echo "step $step of the form"; sleep 0.3; done')
    # What the form changed stands in the text.
    expect(page.get_by_label("Specification as YAML")).to_contain_text("name: from-the-form")
    expect(page.get_by_text("Would start at once")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()

    expect(page.get_by_role("heading", name="from-the-form")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/jobs/\d+$"))
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_role("log")).to_contain_text("step 3 of the form")
    expect(page.locator("header").get_by_text("Succeeded")).to_be_visible()
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("table")).to_contain_text("running → succeeded")


def test_a_mistake_is_told_beside_its_field_and_in_the_text(open_page):
    page = open_page("vera", "/submit")
    page.get_by_label("GPUs per replica").fill("99")
    expect(page.locator("[aria-invalid=true]")).to_have_value("99")
    expect(page.get_by_text(re.compile(r"Line \d+: tasks\.0\.resources\.gpu"))).to_be_visible()
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()

    page.get_by_label("GPUs per replica").fill("1")
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_enabled()


def test_the_form_follows_the_text_and_waits_while_it_cannot_be_read(open_page):
    page = open_page("vera", "/submit")
    editor = page.get_by_label("Specification as YAML")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("name: typed\ntasks:\n  - name: one\n    resources: {gpu: 2}\n    command: [")
    expect(page.get_by_text("The form returns when the YAML is valid again.")).to_be_visible()
    page.keyboard.insert_text('"true"]\n')
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed")
    expect(page.get_by_label("GPUs per replica")).to_have_value("2")


def test_a_job_that_waits_says_why_and_starts_when_it_can(garden, open_page):
    first = garden.submit("sleep 600", name="in-the-way", gpus=4)
    garden.platform.wait_for(first, "running")
    second = garden.submit("sleep 600", name="in-line", gpus=4)
    page = open_page("vera", f"/jobs/{second}")
    expect(page.get_by_text("Why it waits")).to_be_visible()
    expect(page.get_by_text("guarantees 6 V100")).to_be_visible()
    expect(page.get_by_text("in the queue of virtual cluster vision-vc")).to_be_visible()
    # The forecast after the next round; two GPUs would be free for it at once.
    expect(page.get_by_text("Expected to start")).to_be_visible()
    page.get_by_label("GPUs of each replica").fill("2")
    page.get_by_role("button", name="When would it start?").click()
    row = page.get_by_role("region", name="Starts before and after").get_by_role("row", name="in-line")
    # Its start after the change, in the last column; what it was before may be "at once" too.
    expect(row.get_by_role("cell").last).to_have_text("at once")

    garden.platform.call("POST", f"jobs/{first}/cancel")
    expect(page.locator("header").get_by_text("Running")).to_be_visible()
    expect(page.get_by_text("Why it waits")).to_have_count(0)


def test_a_preempted_job_tells_who_took_its_gpus(garden, open_page):
    victim = garden.submit("sleep 600", name="gives-way", gpus=4, guarantee="opportunistic")
    garden.platform.wait_for(victim, "running")
    page = open_page("vera", f"/jobs/{victim}")
    expect(page.locator("header").get_by_text("Running")).to_be_visible()
    # Six more do not fit into the four that are left: the guaranteed job takes the other's.
    winner = garden.submit("sleep 600", name="has-a-right", gpus=3)
    another = garden.submit("sleep 600", name="has-a-right-too", gpus=3)
    garden.platform.wait_for(winner, "running")
    garden.platform.wait_for(another, "running")
    expect(page.get_by_text("Preempted")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile(rf"job ({winner}|{another})"))).to_be_visible()


def test_jobs_are_filtered_by_the_address_and_cancelled_together(garden, open_page):
    jobs = [garden.submit("sleep 600", name=f"sweep-{number}") for number in range(3)]
    for job in jobs:
        garden.platform.wait_for(job, "running")
    page = open_page("vera", "/jobs?q=sweep&state=running")
    rows = page.get_by_role("row").filter(has_text="sweep-")
    expect(rows).to_have_count(3)
    expect(page.get_by_role("button", name=re.compile("Running"))).to_have_attribute("aria-pressed", "true")

    page.get_by_label("Search by name").fill("sweep-1")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("q=sweep-1"))
    page.get_by_label("Search by name").fill("sweep")
    expect(rows).to_have_count(3)

    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Change the selected").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 3 jobs").click()
    for job in jobs:
        garden.platform.wait_for(job, "cancelled")
    # They leave the list of running jobs by themselves.
    expect(page.get_by_text("No job matches these filters")).to_be_visible()


def test_an_array_unfolds_to_its_tasks_of_which_one_is_requeued_and_all_are_cancelled(garden, open_page):
    first = garden.submit("sleep 600", name="sweep", array={"indices": "0-2"}, labels={"team": "sweepers"})
    tasks = [first, first + 1, first + 2]
    for job in tasks:
        garden.platform.wait_for(job, "running")
    page = open_page("vera", "/jobs?state=running,queued")
    expect(page.get_by_role("link", name="array of 3: 3 running")).to_be_visible()
    page.get_by_role("button", name="Jobs of sweep").click()
    row = page.get_by_role("row", name=f"#{first + 1} [1]")
    row.get_by_role("button", name="Requeue").last.click()
    until(lambda: garden.platform.job(first + 1)["attempts"] == 2, "the task to start again")

    page.get_by_label("Group by").select_option("Group by: label")
    page.get_by_label("Name of the label").fill("team")
    expect(page).to_have_url(re.compile("group=label%3Ateam"))
    page.get_by_role("button", name="Jobs of sweepers").click()
    expect(page.get_by_role("link", name=re.compile("array of 3"))).to_be_visible()
    page.reload()
    group = page.get_by_role("row").filter(has_text="sweepers")
    group.get_by_role("button", name="Change all").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel 3 jobs").click()
    for job in tasks:
        garden.platform.wait_for(job, "cancelled")


def test_a_clone_starts_from_the_same_specification(garden, open_page):
    job = garden.submit("echo once", name="original", time_limit="90m", labels={"team": "garden"})
    garden.platform.wait_for(job, "succeeded")
    page = open_page("vera", f"/jobs/{job}")
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("original")
    expect(page.get_by_label("Time limit")).to_have_value("90m")
    expect(page.get_by_label("Command")).to_have_value("echo once")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="original")).to_be_visible()
    expect(page).not_to_have_url(re.compile(f"/jobs/{job}$"))
    expect(page.get_by_text("team: garden")).to_be_visible()


def test_the_log_of_each_rank_can_be_read_and_searched(garden, open_page):
    task = {
        "name": "main",
        "replicas": 2,
        "resources": {"gpu": 1, "gpu_model": "V100"},
        "command": ["sh", "-c", 'seq 1 400; echo "needle of rank $RANK"; seq 401 450'],
    }
    job = garden.platform.submit(name="two-ranks", tenant="vision", tasks=[task])
    garden.platform.wait_for(job, "succeeded")
    page = open_page("vera", f"/jobs/{job}?tab=log")
    log = page.get_by_role("log")
    expect(log).to_contain_text("450")
    expect(page.get_by_text("451 lines")).to_be_visible()
    page.get_by_label("Search the log").fill("needle")
    page.get_by_label("Search the log").press("Enter")
    expect(log.locator("mark")).to_have_text("needle")
    page.get_by_label("Rank", exact=True).select_option("rank 1")
    page.get_by_label("Search the log").fill("needle")
    page.get_by_label("Search the log").press("Enter")
    expect(log).to_contain_text("needle of rank 1")


def test_a_job_is_read_beside_the_list_and_covers_it_on_a_phone(garden, open_page):
    job = garden.submit("echo a line of its output; sleep 600", name="beside", labels={"team": "readers"})
    garden.platform.wait_for(job, "running")
    page = open_page("vera", "/jobs?q=beside")
    row = page.get_by_role("row").filter(has_text=f"#{job}")
    row.get_by_role("cell", name="vision", exact=True).click()
    panel = page.get_by_role("dialog", name="beside")
    expect(panel.get_by_label("Last lines of rank 0")).to_contain_text("a line of its output")
    expect(page).to_have_url(re.compile(f"job={job}"))
    listed, beside = row.bounding_box(), panel.bounding_box()
    assert listed["x"] < beside["x"]
    expect(row).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.keyboard.press("Enter")
    expect(panel).to_be_focused()

    page.set_viewport_size({"width": 390, "height": 844})
    expect(panel).to_be_visible()
    # Once it has taken the page, the focus stays in it.
    expect(panel.get_by_role("button", name="Close")).to_be_focused()
    until(
        lambda: panel.bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844},
        "the sheet to cover the page",
    )
    panel.get_by_role("button", name="Cancel job").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel job").click()
    garden.platform.wait_for(job, "cancelled")
    expect(panel.get_by_text("Cancelled", exact=True)).to_be_visible()
    panel.get_by_role("button", name="Close").click()
    expect(page).not_to_have_url(re.compile("job="))
