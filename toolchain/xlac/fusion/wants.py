"""Who reads a node while the second sweep of fusion decides where it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.fusion.cluster import Cluster

RESULT = "a result of the model"


@dataclass(slots=True)
class Wants:
    """Readers of a node: the clusters that could compute it themselves, and how often each of its
    elements is then computed.
    """

    inline: dict[Cluster, float] = field(default_factory=dict)
    # clusters that need it in memory, with the reason
    memory: dict[Cluster, str] = field(default_factory=dict)
    # number of different indices at which a cluster reads it; each needs its own code
    ways: dict[Cluster, set[int]] = field(default_factory=dict)

    def dear(self) -> str:
        """Why no reader computes it."""
        if len(self.inline) > 1:
            return (
                f"{len(self.inline)} kernels read it, and computing it in each would cost more "
                "than memory"
            )
        return "each of its elements is read many times"

    def apart_from(self, home: Cluster, result: bool) -> str:
        """Why readers of a cluster's result are not fused with it."""
        if result and not self.inline:
            return RESULT
        for cluster in self.inline:
            if cluster is home:
                continue
            if cluster.reduces and home.reduces:
                return "its readers reduce another space"
            if cluster.reduces:
                return f"a reduction needs whole rows of the {home.anchor.op.mnemonic}"
            return (
                f"read elsewhere than where the {home.anchor.op.mnemonic} writes it, or together "
                "with later results"
            )
        return ""
