"""The scheduler's tables. Facts are declared once more, as values, in `core.model.snapshot`."""

from scheduler.models.anomalies import Advice, AnomalyReport
from scheduler.models.budgets import Budget
from scheduler.models.cells import CellSpecification
from scheduler.models.cluster import ClusterSettings
from scheduler.models.events import Event
from scheduler.models.failures import FailureRules
from scheduler.models.fairness import FairnessProgress, FairnessSample, FairnessState, FairnessViolation
from scheduler.models.forecasts import Forecast, WhatIf
from scheduler.models.health import NodeCheck
from scheduler.models.inventory import AgentService, Gpu, GpuModel, Node
from scheduler.models.jobs import Attempt, AttemptPart, Job, LogChunk, ProgressPoint
from scheduler.models.ledger import LedgerLine
from scheduler.models.logs import LogRemoval
from scheduler.models.market import Allowance, CreditAccount, CreditTransfer, Loan, MarketRule, Offer
from scheduler.models.metrics import NodeMetrics, PartMetrics
from scheduler.models.notifications import Delivery, EmailNotice, NotificationSettings, Webhook
from scheduler.models.restraint import Restraint
from scheduler.models.rounds import (
    AllocatedGpu,
    Allocation,
    Explanation,
    Leadership,
    PolicyMemory,
    QueueOrder,
    Round,
    UsageSample,
    ViewComputing,
)
from scheduler.models.sessions import PortPass, Session
from scheduler.models.speeds import SpeedCorrection, SpeedMeasurement
from scheduler.models.training import TrainingProgress

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
    "ClusterSettings",
    "CreditAccount",
    "CreditTransfer",
    "Delivery",
    "EmailNotice",
    "Event",
    "Explanation",
    "FailureRules",
    "FairnessProgress",
    "FairnessSample",
    "FairnessState",
    "FairnessViolation",
    "Forecast",
    "Gpu",
    "GpuModel",
    "Job",
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
    "Session",
    "SpeedCorrection",
    "SpeedMeasurement",
    "TrainingProgress",
    "UsageSample",
    "ViewComputing",
    "Webhook",
    "WhatIf",
]
