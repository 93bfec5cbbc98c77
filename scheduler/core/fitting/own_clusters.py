"""The clusters of virtual clusters' own cells, idle and healthy."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from scheduler.core.cells.chains import Layout
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.virtual_nodes import Profile, profile_of, virtual_nodes

#: The last layouts and profiles, with their clusters: every round asks for the same.
_recent: deque[tuple[Layout, Mapping[str, Profile], tuple[str, ...], dict[str, Cluster]]] = deque(maxlen=4)


def own_clusters(layout: Layout, cluster: Cluster) -> Mapping[str, Cluster]:
    """Return the cluster of the virtual nodes of each virtual cluster that the specification names.

    They may be shared with other rounds, so they must not be changed.
    """
    nodes = {node.name: node for fleet in cluster.fleets.values() for node in fleet.nodes}
    profiles = {name: profile_of(chain, nodes, cluster.levels) for name, chain in layout.chains.items()}
    for known, its_profiles, its_levels, clusters in _recent:
        if known is layout and its_profiles == profiles and its_levels == cluster.levels:
            return clusters
    clusters = {
        vc: Cluster(virtual_nodes(layout, vc, profiles, cluster.levels), cluster.levels)
        for vc in layout.specification.virtual_clusters
    }
    _recent.append((layout, profiles, cluster.levels, clusters))
    return clusters
