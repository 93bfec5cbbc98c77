"""Every table of the scheduler, for Django, and for tests and scripts that read many of them.

Each slice declares its own. Facts are declared once more, as values, in `core.model.snapshot`.
"""

from scheduler.models.adviser import Advice, AnomalyReport, ElasticitySavings
from scheduler.models.archives import Archive
from scheduler.models.attempts import (
    AllocatedGpu,
    Allocation,
    Attempt,
    AttemptPart,
    InputPool,
    JobProfile,
    JobScaling,
    ProgressPoint,
    ProgressThinning,
    TrainingProgress,
)
from scheduler.models.budgets import Budget, UserBudget, UserQuota
from scheduler.models.cells import CellSpecification
from scheduler.models.cluster import ClusterSettings
from scheduler.models.events import Event
from scheduler.models.failures import FailureRules
from scheduler.models.fairness import FairnessProgress, FairnessSample, FairnessState, FairnessViolation
from scheduler.models.forecasts import Forecast, WhatIf
from scheduler.models.jobs import Dependency, Explanation, Job, JobTemplate, QueueOrder
from scheduler.models.ledger import LedgerLine
from scheduler.models.logs import LogChunk, LogRemoval
from scheduler.models.maintenance import MaintenanceWindow
from scheduler.models.market import Allowance, CreditAccount, CreditTransfer, Loan, MarketRule, Offer
from scheduler.models.metrics import FragmentationSample, NodeMetrics, NodePeak, PartMetrics, UsageSample
from scheduler.models.nodes import AgentService, Gpu, GpuModel, Node, NodeCheck, ServingPool
from scheduler.models.notifications import (
    Delivery,
    EmailNotice,
    NotificationSettings,
    UsageSubscription,
    Webhook,
)
from scheduler.models.reservations import Reservation
from scheduler.models.rounds import Leadership, PolicyMemory, Round, ViewComputing
from scheduler.models.sessions import PortPass, Session
from scheduler.models.throughputs import (
    ClassProfile,
    CpuSensitivity,
    InterferenceFit,
    SpeedCorrection,
    SpeedMeasurement,
)
from scheduler.models.virtual_clusters import Overcommitment, PeakSamples, PreemptionLimits

__all__ = [
    "Advice",
    "AgentService",
    "AllocatedGpu",
    "Allocation",
    "Allowance",
    "AnomalyReport",
    "Archive",
    "Attempt",
    "AttemptPart",
    "Budget",
    "CellSpecification",
    "ClassProfile",
    "ClusterSettings",
    "CpuSensitivity",
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
    "InputPool",
    "InterferenceFit",
    "Job",
    "JobProfile",
    "JobScaling",
    "JobTemplate",
    "Leadership",
    "LedgerLine",
    "Loan",
    "LogChunk",
    "LogRemoval",
    "MaintenanceWindow",
    "MarketRule",
    "Node",
    "NodeCheck",
    "NodeMetrics",
    "NodePeak",
    "NotificationSettings",
    "Offer",
    "Overcommitment",
    "PartMetrics",
    "PeakSamples",
    "PolicyMemory",
    "PortPass",
    "PreemptionLimits",
    "ProgressPoint",
    "ProgressThinning",
    "QueueOrder",
    "Reservation",
    "Round",
    "ServingPool",
    "Session",
    "SpeedCorrection",
    "SpeedMeasurement",
    "TrainingProgress",
    "UsageSample",
    "UsageSubscription",
    "UserBudget",
    "UserQuota",
    "ViewComputing",
    "Webhook",
    "WhatIf",
]
