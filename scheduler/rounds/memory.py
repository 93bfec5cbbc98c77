"""What policies remember from round to round."""

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot
from scheduler.models.rounds import PolicyMemory


def write_memory(snapshot: Snapshot, plan: Plan) -> None:
    """Store the memory of the views that remember something else than before."""
    changed = [
        PolicyMemory(view=view, memory=dict(memory))
        for view, memory in plan.memory.items()
        if memory != snapshot.memory.get(view, {})
    ]
    PolicyMemory.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["view"], update_fields=["memory"]
    )
