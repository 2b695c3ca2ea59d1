# Made from the table in internal/alerts by make docs; edits are lost.
# Lets through the lines that somebody should see, each with its alert, severity and runbook:
#   kubectl -n orphand logs -f -l app.kubernetes.io/name=orphand | jq -cf manifests/alerts/filter.jq
{
  "ForegroundWedged": ["OrphandForegroundWedged", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandForegroundWedged.md"],
  "RecreateLoop": ["OrphandRecreateLoop", "critical", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandRecreateLoop.md"],
  "FinishedButRunning": ["OrphandFinishedButRunning", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandFinishedButRunning.md"],
  "ReExecution": ["OrphandReExecution", "critical", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandReExecution.md"],
  "Overlap": ["OrphandOverlap", "critical", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandOverlap.md"],
  "NodeReturned": ["OrphandNodeReturned", "critical", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandNodeReturned.md"],
  "HealthyNodeDeleted": ["OrphandHealthyNodeDeleted", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandHealthyNodeDeleted.md"],
  "OutOfServiceOnReadyNode": ["OrphandOutOfServiceOnReadyNode", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandOutOfServiceOnReadyNode.md"],
  "ForcedRemoval": ["OrphandForcedRemoval", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandForcedRemoval.md"],
  "UnprovableGrace": ["OrphandUnprovableGrace", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandUnprovableGrace.md"],
  "StuckTerminating": ["OrphandStuckTerminating", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandStuckTerminating.md"],
  "HeldByFinalizer": ["OrphandHeldByFinalizer", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandHeldByFinalizer.md"],
  "GarbageCollectorStalled": ["OrphandGarbageCollectorStalled", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandGarbageCollectorStalled.md"],
  "InvalidAnnotation": ["OrphandInvalidAnnotation", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandInvalidAnnotation.md"],
  "ClockSkew": ["OrphandClockSkew", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandClockSkew.md"],
  "PolicyRefused": ["OrphandPolicyRefused", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandPolicyRefused.md"],
  "APIUnreachable": ["OrphandAPIUnreachable", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandAPIErrors.md"],
  "NodesUnreadable": ["OrphandNodesUnreadable", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandNodesUnreadable.md"],
  "WorkPanicked": ["OrphandWorkPanicked", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandPanics.md"],
  "Failed": ["OrphandFailed", "warning", "https://github.com/orphand/orphand/blob/main/docs/runbooks/OrphandDown.md"]
} as $alerts
| select(.phase != "ended")
| $alerts[.event] as $alert
| select($alert)
| {alert: $alert[0], severity: $alert[1], runbook: $alert[2]} + .
