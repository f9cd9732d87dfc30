package metrics

import "tandem.internal/broker/metrics"

// The metrics of the controller. The order is that of the reference.
var (
	nodes = metrics.Def{Name: "tandem_nodes", Type: metrics.Gauge, Labels: []string{"state", "type"},
		Help: "Nodes, each in the first state that fits: revoked, awaited, offline, failed, behind, unwell, in-step."}
	documents = metrics.Def{Name: "tandem_documents", Type: metrics.Gauge, Labels: []string{"kind", "state"},
		Help: "Documents that nodes should have, by what nodes reported of the newest; waiting: nothing yet."}
	health = metrics.Def{Name: "tandem_health", Type: metrics.Gauge, Labels: []string{"state"},
		Help: "Nodes by the health that they reported; unknown: nothing yet."}
	workloads = metrics.Def{Name: "tandem_workloads", Type: metrics.Gauge, Labels: []string{"state"},
		Help: "Workload slots that nodes should have, by state; away: on a node that is offline."}
	alerts = metrics.Def{Name: "tandem_alerts_raised", Type: metrics.Gauge, Labels: []string{"parameter"},
		Help: "Alerts of nodes that are raised, by what their rule watches, such as cpu, ram or partition."}
	trials = metrics.Def{Name: "tandem_trials", Type: metrics.Gauge, Labels: []string{"of"},
		Help: "Trials that go on: of documents for the unit, and of agents or components on nodes."}
	rollouts = metrics.Def{Name: "tandem_rollouts", Type: metrics.Gauge, Labels: []string{"state"},
		Help: "Rollouts that are known, by phase."}
	load = metrics.Def{Name: "tandem_load_ratio", Type: metrics.Gauge, Labels: []string{"resource", "stat"},
		Help: "Share of processors and memory in use on online nodes, as they reported: mean and max of the nodes."}
	maintenance = metrics.Def{Name: "tandem_maintenance", Type: metrics.Gauge,
		Help: "1 while a maintenance of the controller is announced."}
	counted = metrics.Def{Name: "tandem_counted_timestamp_seconds", Type: metrics.Gauge,
		Help: "When the metrics above were counted; they stay as they were while that is not possible."}
	certificates = metrics.Def{Name: "tandem_certificate_expiry_seconds", Type: metrics.Gauge, Labels: []string{"of"},
		Help: "Unix time at which the first certificate ends: of a node, or the one of the CA that signs."}

	convergence = metrics.Def{Name: "tandem_convergence_seconds", Type: metrics.Histogram, Labels: []string{"kind"},
		Help: "From when a document was issued to a node until it was journaled that the node runs it."}
	submissions = metrics.Def{Name: "tandem_submissions_total", Type: metrics.Counter,
		Labels: []string{"kind", "result"},
		Help:   "Submissions that were journaled, as accepted or refused."}
	ended = metrics.Def{Name: "tandem_trials_ended_total", Type: metrics.Counter, Labels: []string{"kind", "result"},
		Help: "Trials of documents that have ended, as confirmed or rolled-back."}
	reports = metrics.Def{Name: "tandem_reports_total", Type: metrics.Counter, Labels: []string{"kind"},
		Help: "Reports of nodes that were journaled."}
	repairs = metrics.Def{Name: "tandem_repair_requests_total", Type: metrics.Counter,
		Help: "Requests to nodes to report again what did not arrive."}
	troubles = metrics.Def{Name: "tandem_troubles_total", Type: metrics.Counter,
		Help: "Journal entries of messages that could not be taken, and of trouble of the controller itself."}

	records = metrics.Def{Name: "tandem_journal_records", Type: metrics.Gauge, Help: "Records that the journal has."}
	written = metrics.Def{Name: "tandem_journal_last_record", Type: metrics.Gauge,
		Help: "Number of the journal's newest record."}
	size = metrics.Def{Name: "tandem_journal_size_bytes", Type: metrics.Gauge, Labels: []string{"part"},
		Help: "Size of the journal's file: used, or free to be written to again."}
	commits = metrics.Def{Name: "tandem_journal_commit_seconds", Type: metrics.Histogram,
		Help: "How long commits to the journal took."}
	failures = metrics.Def{Name: "tandem_journal_failures_total", Type: metrics.Counter,
		Help: "Writes to the journal that failed."}
	room = metrics.Def{Name: "tandem_disk_free_bytes", Type: metrics.Gauge,
		Help: "What the disk of the state directory has left."}
	refusing = metrics.Def{Name: "tandem_refusing", Type: metrics.Gauge,
		Help: "1 while nothing is accepted, since the journal cannot be written or the controller is stopping."}
	road = metrics.Def{Name: "tandem_broker_up", Type: metrics.Gauge,
		Help: "1 while the controller has a session with its broker, embedded or not."}
	requests = metrics.Def{Name: "tandem_http_request_seconds", Type: metrics.Histogram,
		Labels: []string{"route", "code"},
		Help:   "Time until the HTTP API has answered, or has begun to stream; by pattern of the route and status."}
)

// Defs describes the controller's metrics, but for those that package broker/metrics has.
func Defs() []metrics.Def {
	return []metrics.Def{nodes, documents, health, workloads, alerts, trials, rollouts, load, maintenance, counted,
		certificates, convergence, submissions, ended, reports, repairs, troubles, records, written, size, commits,
		failures, room, refusing, road, requests}
}
