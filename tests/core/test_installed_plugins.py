"""Policies and placers of other packages: the worked example of docs/adding-a-policy.md, installed."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.checks import run_checks

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.round import registry
from scheduler.core.round.registry import PLACERS, POLICIES, make_policy, with_installed
from scheduler.simulation.outside import placer_text, policy_text

ROOT = Path(__file__).parents[2]
[PRINTED] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-policy.md").read_text(), re.DOTALL)
OURS = {"fifo": "scheduler.core.policies.fifo:Fifo"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What pip leaves behind when it installs a package with these plug-ins."""
    (tmp_path / "printed_policies.py").write_text(PRINTED)
    (tmp_path / "other_policies.py").write_text("class Plain:\n    def allocate(self): ...\n")
    information = tmp_path / "printed_policies-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: printed-policies\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[allotment.policies]\n"
        "shortest_remaining = printed_policies:ShortestRemaining\n"
        "fifo = printed_policies:ShortestRemaining\n"
        "missing = printed_policies:Longest\n"
        "plain = other_policies:Plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "UNUSABLE", {})
    yield tmp_path
    for module in ("printed_policies", "other_policies"):
        sys.modules.pop(module, None)


def test_an_installed_policy_is_known_by_its_name(package: Path) -> None:
    found = with_installed("allotment.policies", "allocate", OURS)
    assert list(found) == ["fifo", "shortest_remaining"]
    assert found["fifo"] is POLICIES["fifo"]
    assert found["shortest_remaining"].__module__ == "printed_policies"


def test_one_that_cannot_be_used_is_named_with_the_reason_and_stops_nothing(package: Path) -> None:
    with_installed("allotment.policies", "allocate", OURS)
    assert set(registry.UNUSABLE) == {"fifo", "missing", "plain"}
    assert "another plug-in has this name" in registry.UNUSABLE["fifo"]
    assert "no dataclass with a method allocate" in registry.UNUSABLE["plain"]
    with pytest.raises(UnknownPlugin, match=r"missing is installed, but cannot be used: .*Longest"):
        make_policy("missing")
    assert make_policy("fifo") == POLICIES["fifo"]()
    said = [str(each.msg) for each in run_checks() if each.id == "scheduler.W001"]
    assert any("plain" in text for text in said)


@pytest.mark.parametrize("policy", ["shortest_remaining", "printed_policies:ShortestRemaining"])
def test_the_simulator_runs_it_by_its_name_or_by_where_it_is(package: Path, policy: str) -> None:
    (package / "workload.json").write_text('{"jobs": 20}')
    argv = [sys.executable, ROOT / "manage.py", "simulate", "--generate", "workload.json"]
    path = os.environ | {"PYTHONPATH": str(package) if policy == "shortest_remaining" else ""}
    ended = subprocess.run(
        [*argv, "--cluster", "v100=8:4", "--policy", policy, "--policy", "fifo"],
        cwd=package,
        env=path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "shortest_remaining" in ended.stdout


def test_a_class_is_named_as_it_is_and_errors_say_what_is_wrong(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "shortest_remaining", None)
    monkeypatch.delitem(POLICIES, "shortest_remaining")
    assert policy_text("las:a=1") == "las:a=1"
    assert placer_text("fgd") == "fgd"
    assert policy_text("printed_policies:ShortestRemaining:a=1") == "shortest_remaining:a=1"
    with pytest.raises(UnknownPlugin, match="takes"):
        make_policy("shortest_remaining:a=1")
    with pytest.raises(UnknownPlugin, match="No module named 'nowhere'"):
        policy_text("nowhere:Policy")
    with pytest.raises(UnknownPlugin, match="has no class ShortestRemainin; did you mean ShortestRemaining"):
        policy_text("printed_policies:ShortestRemainin")
    with pytest.raises(UnknownPlugin, match=r"os\.path:join is .*no dataclass with a method allocate"):
        policy_text("os.path:join")
    with pytest.raises(UnknownPlugin, match="no dataclass with a method place"):
        placer_text("printed_policies:ShortestRemaining")
    (package / "others.py").write_text(PRINTED)
    with pytest.raises(UnknownPlugin, match="shortest_remaining is the name of another plug-in"):
        policy_text("others:ShortestRemaining")
    del POLICIES["shortest_remaining"]
    assert "shortest_remaining" not in PLACERS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import os\n\nclass Mine\n", r"SyntaxError: expected ':' in .*broken\.py, line 3"),
        ("\nint('x')\n", r"ValueError: invalid literal .* in .*broken\.py, line 2"),
        ("import sys\nsys.exit(0)\n", r"SystemExit: 0 in .*broken\.py, line 2"),
        ("\n\nimport nowhere\n", r"No module named 'nowhere' in .*broken\.py, line 3"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_named_with_the_line_of_its_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, said: str
) -> None:
    (tmp_path / "broken.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    with pytest.raises(UnknownPlugin, match=f"broken:Mine: .*{said}"):
        policy_text("broken:Mine")


def test_a_policy_that_cannot_be_made_is_named_with_the_line_of_its_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "    def __post_init__(self) -> None:\n        {}['x']\n\n    def allocate("
    (tmp_path / "unmade_policies.py").write_text(
        PRINTED.replace("ShortestRemaining", "Unmade").replace("    def allocate(", made)
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert policy_text("unmade_policies:Unmade") == "unmade"
    with pytest.raises(
        UnknownPlugin, match=r"unmade cannot be made: KeyError\('x'\) in .*unmade_policies\.py"
    ):
        make_policy("unmade")
    del POLICIES["unmade"]


def test_a_class_may_have_a_name_of_small_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small_policies.py").write_text(PRINTED.replace("ShortestRemaining", "lower"))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert policy_text("small_policies:lower") == "lower"
    del POLICIES["lower"]
