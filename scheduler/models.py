"""Every table of the scheduler, for Django, and for tests and scripts that look at many of them.

Each slice declares its own. Facts are declared once more, as values, in `core.model.snapshot`.
"""

from scheduler.adviser.models import Advice, AnomalyReport, ElasticitySavings
from scheduler.attempts.models import (
    AllocatedGpu,
    Allocation,
    Attempt,
    AttemptPart,
    JobProfile,
    JobScaling,
    ProgressPoint,
    TrainingProgress,
)
from scheduler.budgets.models import Budget
from scheduler.cells.models import CellSpecification
from scheduler.cluster.models import ClusterSettings
from scheduler.events.models import Event
from scheduler.failures.models import FailureRules
from scheduler.fairness.models import FairnessProgress, FairnessSample, FairnessState, FairnessViolation
from scheduler.forecasts.models import Forecast, WhatIf
from scheduler.jobs.models import Dependency, Explanation, Job, QueueOrder
from scheduler.ledger.models import LedgerLine
from scheduler.logs.models import LogChunk, LogRemoval
from scheduler.market.models import Allowance, CreditAccount, CreditTransfer, Loan, MarketRule, Offer
from scheduler.metrics.models import FragmentationSample, NodeMetrics, PartMetrics, UsageSample
from scheduler.nodes.models import AgentService, Gpu, GpuModel, Node, NodeCheck, ServingPool
from scheduler.notifications.models import Delivery, EmailNotice, NotificationSettings, Webhook
from scheduler.rounds.models import Leadership, PolicyMemory, Round, ViewComputing
from scheduler.sessions.models import PortPass, Session
from scheduler.throughputs.models import ClassProfile, InterferenceFit, SpeedCorrection, SpeedMeasurement
from scheduler.virtual_clusters.models import Restraint

__all__ = [
    "Advice",
    "AgentService",
    "AllocatedGpu",
    "Allocation",
    "Allowance",
    "AnomalyReport",
    "Attempt",
    "AttemptPart",
    "Budget",
    "CellSpecification",
    "ClassProfile",
    "ClusterSettings",
    "CreditAccount",
    "CreditTransfer",
    "Delivery",
    "Dependency",
    "ElasticitySavings",
    "EmailNotice",
    "Event",
    "Explanation",
    "FailureRules",
    "FairnessProgress",
    "FairnessSample",
    "FairnessState",
    "FairnessViolation",
    "Forecast",
    "FragmentationSample",
    "Gpu",
    "GpuModel",
    "InterferenceFit",
    "Job",
    "JobProfile",
    "JobScaling",
    "Leadership",
    "LedgerLine",
    "Loan",
    "LogChunk",
    "LogRemoval",
    "MarketRule",
    "Node",
    "NodeCheck",
    "NodeMetrics",
    "NotificationSettings",
    "Offer",
    "PartMetrics",
    "PolicyMemory",
    "PortPass",
    "ProgressPoint",
    "QueueOrder",
    "Restraint",
    "Round",
    "ServingPool",
    "Session",
    "SpeedCorrection",
    "SpeedMeasurement",
    "TrainingProgress",
    "UsageSample",
    "ViewComputing",
    "Webhook",
    "WhatIf",
]
