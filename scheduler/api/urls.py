"""The routes of the scheduler API, below /api/v1/."""

from django.urls import path

from scheduler.api import cells, cluster, job_details, jobs, nodes, predictions, rounds, virtual_clusters

urlpatterns = [
    path("jobs", jobs.Jobs.as_view(), name="jobs"),
    path("jobs/bulk", jobs.JobsBulk.as_view(), name="jobs-bulk"),
    path("jobs/check", jobs.JobsCheck.as_view(), name="jobs-check"),
    path("jobs/counts", jobs.JobsCounts.as_view(), name="jobs-counts"),
    path("jobs/<int:job_id>", jobs.JobDetail.as_view(), name="job"),
    path("jobs/<int:job_id>/cancel", jobs.JobCancel.as_view(), name="job-cancel"),
    path("jobs/<int:job_id>/hold", jobs.JobHold.as_view(), name="job-hold"),
    path("jobs/<int:job_id>/release", jobs.JobRelease.as_view(), name="job-release"),
    path("jobs/<int:job_id>/attempts", job_details.JobAttempts.as_view(), name="job-attempts"),
    path("jobs/<int:job_id>/events", job_details.JobEvents.as_view(), name="job-events"),
    path("jobs/<int:job_id>/logs", job_details.JobLogs.as_view(), name="job-logs"),
    path("jobs/<int:job_id>/progress", job_details.JobProgress.as_view(), name="job-progress"),
    path("jobs/<int:job_id>/why", job_details.JobWhy.as_view(), name="job-why"),
    path("what-if", predictions.WhatIfs.as_view(), name="what-ifs"),
    path("what-if/<uuid:question_id>", predictions.WhatIfDetail.as_view(), name="what-if"),
    path("nodes", nodes.Nodes.as_view(), name="nodes"),
    path("nodes/<str:name>", nodes.NodeDetail.as_view(), name="node"),
    path("nodes/<str:name>/drain", nodes.NodeDrain.as_view(), name="node-drain"),
    path("nodes/<str:name>/token", nodes.NodeToken.as_view(), name="node-token"),
    path("virtual-clusters", virtual_clusters.VirtualClusters.as_view(), name="virtual-clusters"),
    path(
        "virtual-clusters/<str:name>",
        virtual_clusters.VirtualClusterDetail.as_view(),
        name="virtual-cluster",
    ),
    path(
        "virtual-clusters/<str:name>/cells",
        cells.VirtualClusterCells.as_view(),
        name="virtual-cluster-cells",
    ),
    path("cells", cells.Cells.as_view(), name="cells"),
    path("cells/check", cells.CellsCheck.as_view(), name="cells-check"),
    path("cells/proposal", cells.CellsProposal.as_view(), name="cells-proposal"),
    path("cells/tree", cells.CellTree.as_view(), name="cell-tree"),
    path("policies", virtual_clusters.Policies.as_view(), name="policies"),
    path("gpu-models", cluster.GpuModels.as_view(), name="gpu-models"),
    path("cluster", cluster.ClusterSummary.as_view(), name="cluster"),
    path("cluster/settings", cluster.ClusterSettings.as_view(), name="cluster-settings"),
    path("cluster/usage", cluster.ClusterUsage.as_view(), name="cluster-usage"),
    path("rounds", rounds.Rounds.as_view(), name="rounds"),
    path("rounds/<int:number>", rounds.RoundDetail.as_view(), name="round"),
    path("events", rounds.Events.as_view(), name="events"),
]
