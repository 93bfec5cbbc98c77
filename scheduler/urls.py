"""The routes of the scheduler API, below /api/v1/."""

from django.urls import path

from scheduler.agents import api as agent_api
from scheduler.agents.maintenance import api as maintenance_api
from scheduler.agents.reservations import api as reservation_api
from scheduler.agents.serving_pools import api as serving_pool_api
from scheduler.forecasts import api as forecast_api
from scheduler.forecasts.adviser import api as adviser_api
from scheduler.forecasts.fairness import api as fairness_api
from scheduler.forecasts.previews import api as preview_api
from scheduler.jobs import api as job_api
from scheduler.jobs import bulk_api, groups_api, leaving_api, map_api, searches, templates
from scheduler.jobs.archives import api as archive_api
from scheduler.jobs.artefacts import api as artefact_api
from scheduler.jobs.attempts import api as attempt_api
from scheduler.jobs.budgets import api as budget_api
from scheduler.jobs.failures import api as failure_api
from scheduler.jobs.sessions import api as session_api
from scheduler.nodes import api as node_api
from scheduler.notifications.api import invitations, preferences, usage_reports, webhooks
from scheduler.rounds import api as round_api
from scheduler.rounds.cluster import api as cluster_api
from scheduler.rounds.preview import require_unused
from scheduler.telemetry.events import api as event_api
from scheduler.telemetry.logs import api as log_api
from scheduler.telemetry.metrics import api as metrics_api
from scheduler.telemetry.throughputs import api as throughput_api
from scheduler.virtual_clusters import api as virtual_cluster_api
from scheduler.virtual_clusters.cells import api as cell_api
from scheduler.virtual_clusters.ledger import api as ledger_api
from scheduler.virtual_clusters.market import api as market_api

urlpatterns = [
    path("jobs", job_api.Jobs.as_view(), name="jobs"),
    path("jobs/actions", bulk_api.JobsActions.as_view(), name="jobs-actions"),
    path("jobs/bulk", bulk_api.JobsBulk.as_view(), name="jobs-bulk"),
    path("jobs/check", preview_api.JobsCheck.as_view(), name="jobs-check"),
    path("jobs/counts", bulk_api.JobsCounts.as_view(), name="jobs-counts"),
    path("jobs/export", bulk_api.JobsExport.as_view(), name="jobs-export"),
    path("jobs/groups", groups_api.JobsGroups.as_view(), name="jobs-groups"),
    path("jobs/searches", searches.SavedSearches.as_view(), name="saved-searches"),
    path("jobs/searches/<int:search_id>", searches.SavedSearchDetail.as_view(), name="saved-search"),
    path("jobs/usage", metrics_api.JobsUsage.as_view(), name="jobs-usage"),
    path("jobs/<int:job_id>", job_api.JobDetail.as_view(), name="job"),
    path("jobs/<int:job_id>/code", archive_api.JobCode.as_view(), name="job-code"),
    path("jobs/<int:job_id>/cancel", job_api.JobCancel.as_view(), name="job-cancel"),
    path("jobs/<int:job_id>/hold", job_api.JobHold.as_view(), name="job-hold"),
    path("jobs/<int:job_id>/release", job_api.JobRelease.as_view(), name="job-release"),
    path("jobs/<int:job_id>/requeue", job_api.JobRequeue.as_view(), name="job-requeue"),
    path("jobs/<int:job_id>/artefacts", artefact_api.JobArtefacts.as_view(), name="job-artefacts"),
    path(
        "jobs/<int:job_id>/artefacts/content",
        artefact_api.JobArtefactContent.as_view(),
        name="job-artefact-content",
    ),
    path("jobs/<int:job_id>/attempts", attempt_api.JobAttempts.as_view(), name="job-attempts"),
    path("jobs/<int:job_id>/dependencies", job_api.JobDependencies.as_view(), name="job-dependencies"),
    path("jobs/<int:job_id>/input-workers", job_api.JobInputWorkers.as_view(), name="job-input-workers"),
    path("jobs/<int:job_id>/events", job_api.JobEvents.as_view(), name="job-events"),
    path("jobs/<int:job_id>/preemptions", attempt_api.PreemptionsOfJob.as_view(), name="job-preemptions"),
    path("jobs/<int:job_id>/run-time", forecast_api.RunTimeOfJob.as_view(), name="job-run-time"),
    path("jobs/<int:job_id>/logs", log_api.JobLogs.as_view(), name="job-logs"),
    path("jobs/<int:job_id>/logs/merged", log_api.JobLogsMerged.as_view(), name="job-logs-merged"),
    path("jobs/<int:job_id>/logs/search", log_api.JobLogsSearch.as_view(), name="job-logs-search"),
    path("jobs/<int:job_id>/logs/download", log_api.JobLogsDownload.as_view(), name="job-logs-download"),
    path("jobs/<int:job_id>/metrics", metrics_api.JobMetrics.as_view(), name="job-metrics"),
    path("jobs/<int:job_id>/progress", attempt_api.JobProgress.as_view(), name="job-progress"),
    path("jobs/<int:job_id>/scaling", attempt_api.ScalingOfJob.as_view(), name="job-scaling"),
    path("jobs/<int:job_id>/sensitivity", attempt_api.SensitivityOfJob.as_view(), name="job-sensitivity"),
    path("jobs/<int:job_id>/why", forecast_api.JobWhy.as_view(), name="job-why"),
    path("jobs/<int:job_id>/sessions", session_api.JobSessions.as_view(), name="job-sessions"),
    path("jobs/<int:job_id>/ports/<str:port>/open", session_api.JobPortOpen.as_view(), name="job-port-open"),
    path("jobs/<int:job_id>/throughputs", throughput_api.JobThroughputs.as_view(), name="job-throughputs"),
    path("throughputs", throughput_api.ThroughputList.as_view(), name="throughputs"),
    path(
        "throughputs/correction",
        throughput_api.ThroughputCorrectionView.as_view(),
        name="throughput-correction",
    ),
    path("throughputs/interference", throughput_api.Interference.as_view(), name="interference"),
    path("throughputs/export", throughput_api.ThroughputExport.as_view(), name="throughput-export"),
    path("throughputs/import", throughput_api.ThroughputImportView.as_view(), name="throughput-import"),
    path("failures", attempt_api.Failures.as_view(), name="failures"),
    path("failure-rules", failure_api.FailureRules.as_view(), name="failure-rules"),
    path("failure-rules/test", failure_api.FailureRulesTest.as_view(), name="failure-rules-test"),
    path("what-if", forecast_api.WhatIfs.as_view(), name="what-ifs"),
    path("what-if/<uuid:question_id>", forecast_api.WhatIfDetail.as_view(), name="what-if"),
    path("nodes", node_api.Nodes.as_view(), name="nodes"),
    path("nodes/<str:name>", node_api.NodeDetail.as_view(), name="node"),
    path("nodes/<str:name>/metrics", metrics_api.NodeMetrics.as_view(), name="node-metrics"),
    path("nodes/<str:name>/drain", agent_api.NodeDrain.as_view(), name="node-drain"),
    path("nodes/<str:name>/loan", serving_pool_api.NodeLoan.as_view(), name="node-loan"),
    path("nodes/<str:name>/return", serving_pool_api.NodeReturn.as_view(), name="node-return"),
    path(
        "nodes/<str:name>/serving-pool", serving_pool_api.NodeServingPool.as_view(), name="node-serving-pool"
    ),
    path("serving-pools", serving_pool_api.ServingPools.as_view(), name="serving-pools"),
    path("serving-pools/<str:name>", serving_pool_api.ServingPoolDetail.as_view(), name="serving-pool"),
    path(
        "serving-pools/<str:name>/returns",
        serving_pool_api.ServingPoolReturns.as_view(),
        name="serving-pool-returns",
    ),
    path("maintenance", maintenance_api.MaintenanceWindows.as_view(), name="maintenance"),
    path(
        "maintenance/<int:window_id>",
        maintenance_api.MaintenanceWindowDetail.as_view(),
        name="maintenance-window",
    ),
    path("reservations", reservation_api.Reservations.as_view(), name="reservations"),
    path(
        "reservations/<int:reservation_id>",
        reservation_api.ReservationDetail.as_view(),
        name="reservation",
    ),
    path("nodes/<str:name>/token", node_api.NodeToken.as_view(), name="node-token"),
    path("virtual-clusters", virtual_cluster_api.VirtualClusters.as_view(), name="virtual-clusters"),
    path(
        "virtual-clusters/<str:name>",
        virtual_cluster_api.VirtualClusterDetail.as_view(),
        name="virtual-cluster",
    ),
    path(
        "virtual-clusters/<str:name>/cells",
        cell_api.VirtualClusterCells.as_view(),
        name="virtual-cluster-cells",
    ),
    path(
        "virtual-clusters/<str:name>/targets",
        virtual_cluster_api.VirtualClusterTargets.as_view(),
        name="virtual-cluster-targets",
    ),
    path(
        "virtual-clusters/<str:name>/targets/jobs",
        virtual_cluster_api.VirtualClusterJobTargets.as_view(),
        name="virtual-cluster-job-targets",
    ),
    path(
        "virtual-clusters/<str:name>/preemptions",
        attempt_api.PreemptionsOfVirtualCluster.as_view(),
        name="virtual-cluster-preemptions",
    ),
    path("cells", cell_api.Cells.as_view(), name="cells"),
    path("cells/check", preview_api.CellsCheck.as_view(), name="cells-check"),
    path("cells/proposal", cell_api.CellsProposal.as_view(), name="cells-proposal"),
    path("cells/tree", cell_api.CellTree.as_view(), name="cell-tree"),
    path("cells/advice", adviser_api.Advices.as_view(), name="advices"),
    path("cells/advice/<uuid:advice_id>", adviser_api.AdviceDetail.as_view(), name="advice"),
    path("cells/advice/<uuid:advice_id>/apply", adviser_api.AdviceApply.as_view(), name="advice-apply"),
    path("elasticity-savings", adviser_api.ElasticitySavingsList.as_view(), name="elasticity-savings"),
    path(
        "virtual-clusters/<str:name>/anomalies",
        adviser_api.Anomalies.as_view(),
        name="virtual-cluster-anomalies",
    ),
    path("market/offers", market_api.Offers.as_view(require_unused=require_unused), name="offers"),
    path("market/offers/<int:offer_id>", market_api.OfferDetail.as_view(), name="offer"),
    path("market/offers/<int:offer_id>/withdraw", market_api.OfferWithdraw.as_view(), name="offer-withdraw"),
    path("market/offers/<int:offer_id>/take", market_api.OfferTake.as_view(), name="offer-take"),
    path("market/loans", market_api.Loans.as_view(), name="loans"),
    path("market/loans/<int:loan_id>", market_api.LoanDetail.as_view(), name="loan"),
    path("market/loans/<int:loan_id>/end", market_api.LoanEnd.as_view(), name="loan-end"),
    path("market/rules", market_api.MarketRules.as_view(), name="market-rules"),
    path("market/rules/<int:rule_id>", market_api.MarketRuleDetail.as_view(), name="market-rule"),
    path("market/accounts", market_api.CreditAccounts.as_view(), name="credit-accounts"),
    path(
        "market/accounts/<str:virtual_cluster>/grant", market_api.CreditGrant.as_view(), name="credit-grant"
    ),
    path(
        "market/accounts/<str:virtual_cluster>/allowance",
        market_api.CreditAllowanceView.as_view(),
        name="credit-allowance",
    ),
    path("market/transfers", market_api.CreditTransfers.as_view(), name="credit-transfers"),
    path("market/transfers/export", market_api.CreditTransferExport.as_view(), name="credit-transfer-export"),
    path("policies", virtual_cluster_api.Policies.as_view(), name="policies"),
    path("gpu-models", node_api.GpuModels.as_view(), name="gpu-models"),
    path("gpu-models/<str:name>", throughput_api.GpuModelDetail.as_view(), name="gpu-model"),
    path("shared-gpus", throughput_api.SharedGpus.as_view(), name="shared-gpus"),
    path("cluster", cluster_api.ClusterSummary.as_view(), name="cluster"),
    path("cluster/settings", cluster_api.ClusterSettings.as_view(), name="cluster-settings"),
    path("cluster/fragmentation", cluster_api.ClusterFragmentation.as_view(), name="cluster-fragmentation"),
    path("cluster/usage", cluster_api.ClusterUsage.as_view(), name="cluster-usage"),
    path("map/jobs", map_api.MapJobs.as_view(), name="map-jobs"),
    path("map/nodes", map_api.MapNodes.as_view(), name="map-nodes"),
    path("usage", budget_api.UsageOfGpus.as_view(), name="usage"),
    path("usage/export", budget_api.UsageExport.as_view(), name="usage-export"),
    path("rounds", round_api.Rounds.as_view(), name="rounds"),
    path("rounds/<int:number>", round_api.RoundDetail.as_view(), name="round"),
    path("events", event_api.Events.as_view(), name="events"),
    path("events/stream", event_api.FollowEvents.as_view(), name="event-stream"),
    path(
        "virtual-clusters/<str:name>/fairness",
        fairness_api.VirtualClusterFairness.as_view(),
        name="virtual-cluster-fairness",
    ),
    path(
        "virtual-clusters/<str:name>/fairness/history",
        fairness_api.VirtualClusterFairnessHistory.as_view(),
        name="virtual-cluster-fairness-history",
    ),
    path("fairness/violations", fairness_api.Violations.as_view(), name="violations"),
    path("ledger", ledger_api.Ledger.as_view(), name="ledger"),
    path("ledger/export", ledger_api.LedgerExport.as_view(), name="ledger-export"),
    path("ledger/<int:line_id>", ledger_api.LedgerDetail.as_view(), name="ledger-line"),
    path("ledger/<int:line_id>/replay", preview_api.LedgerReplay.as_view(), name="ledger-replay"),
    path("notifications", preferences.Notifications.as_view(), name="notifications"),
    path("notifications/reports", usage_reports.UsageReports.as_view(), name="notification-reports"),
    path("notifications/address", preferences.NotificationAddress.as_view(), name="notification-address"),
    path(
        "notifications/address/confirm",
        preferences.NotificationAddressConfirm.as_view(),
        name="notification-address-confirm",
    ),
    path("webhooks", webhooks.Webhooks.as_view(), name="webhooks"),
    path("webhooks/<int:webhook_id>", webhooks.WebhookDetail.as_view(), name="webhook"),
    path("webhooks/<int:webhook_id>/secret", webhooks.WebhookSecret.as_view(), name="webhook-secret"),
    path("webhooks/<int:webhook_id>/test", webhooks.WebhookTest.as_view(), name="webhook-test"),
    path("webhooks/<int:webhook_id>/deliveries", webhooks.Deliveries.as_view(), name="deliveries"),
    path(
        "webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/redeliver",
        webhooks.Redelivery.as_view(),
        name="redelivery",
    ),
    path("tenants/<str:name>/invitations", invitations.Invitations.as_view(), name="invitations"),
    path(
        "tenants/<str:name>/invitations/<str:key>",
        invitations.InvitationDetail.as_view(),
        name="invitation",
    ),
    path("invitations/look", invitations.InvitationLook.as_view(), name="invitation-look"),
    path("invitations/accept", invitations.InvitationAccept.as_view(), name="invitation-accept"),
    path("invitations/join", invitations.InvitationJoin.as_view(), name="invitation-join"),
    path("tenants/<str:name>/user-limits", budget_api.UserLimits.as_view(), name="user-limits"),
    path(
        "tenants/<str:name>/members/<str:username>/quota",
        budget_api.UserQuotaView.as_view(),
        name="user-quota",
    ),
    path(
        "tenants/<str:name>/members/<str:username>/budget",
        budget_api.UserBudgetView.as_view(),
        name="user-budget",
    ),
    path("tenants/<str:name>/templates", templates.JobTemplates.as_view(), name="job-templates"),
    path(
        "tenants/<str:name>/templates/<str:template>",
        templates.JobTemplateDetail.as_view(),
        name="job-template",
    ),
    path("tenants/<str:name>/held", budget_api.TenantHeld.as_view(), name="tenant-held"),
    path(
        "tenants/<str:name>/archives/<str:digest>",
        archive_api.TenantArchive.as_view(),
        name="tenant-archive",
    ),
    path("tenants/<str:name>/quota", node_api.TenantQuota.as_view(), name="tenant-quota"),
    path("tenants/<str:name>/budget", budget_api.TenantBudget.as_view(), name="tenant-budget"),
    path("budgets", budget_api.Budgets.as_view(), name="budgets"),
    path("users/<str:username>/deactivate", leaving_api.UserDeactivate.as_view(), name="user-deactivate"),
]
