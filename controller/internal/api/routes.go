package api

import "tandem.internal/controller/internal/tokens"

// anybody stands for no role: health and the dashboard's files, which hold nothing of the unit.
const anybody tokens.Role = ""

// route is one thing that is answered, and the least role that a token needs for it. Whoever comes
// by the unix socket may do everything.
type route struct {
	pattern string // as http.ServeMux has it
	role    tokens.Role
	do      endpoint
}

// table is everything that is answered. A test holds it against what each role may do.
func (a *API) table() []route {
	return []route{
		{"GET /healthz", anybody, a.health},
		{"GET /readyz", anybody, a.ready},
		{"GET /{$}", anybody, a.static("index.html", "text/html; charset=utf-8")},
		{"GET /dashboard.css", anybody, a.static("dashboard.css", "text/css; charset=utf-8")},
		{"GET /dashboard.js", anybody, a.static("dashboard.js", "text/javascript; charset=utf-8")},

		{"GET /v1/config", tokens.View, a.config},
		{"GET /v1/config/status", tokens.View, status(a, a.unit.ConfigStatus)},
		{"GET /v1/config/history", tokens.View, a.history(a.unit.History)},
		{"GET /v1/config/resolved", tokens.View, a.resolved},
		{"GET /v1/config/explain", tokens.View, a.explain},
		{"GET /v1/nodes", tokens.View, a.nodes},
		{"GET /v1/nodes/{node}", tokens.View, a.node},
		{"GET /v1/events", tokens.View, a.events},
		{"GET /v1/journal/verify", tokens.View, a.verify},
		{"GET /v1/unit/status", tokens.View, a.unitStatus},
		{"GET /v1/keys", tokens.View, a.keys},
		{"GET /v1/nodes/{node}/health", tokens.View, a.nodeHealth},
		{"GET /v1/health/settings", tokens.View, a.healthSettings},
		{"GET /v1/workloads", tokens.View, a.workloads},
		{"GET /v1/workloads/status", tokens.View, status(a, a.unit.WorkloadStatus)},
		{"GET /v1/workloads/slots", tokens.View, a.slots},
		{"GET /v1/workloads/history", tokens.View, a.history(a.unit.WorkloadHistory)},

		{"POST /v1/config", tokens.Operate, a.submit},
		{"POST /v1/config/confirm", tokens.Operate, a.confirm},
		{"POST /v1/config/restore", tokens.Operate, a.restore},
		{"POST /v1/config/rollback", tokens.Operate, a.rollback},
		{"POST /v1/health/settings", tokens.Operate, a.setHealth},
		{"POST /v1/health/settings/unset", tokens.Operate, a.unsetHealth},
		{"POST /v1/nodes/{node}/reboot", tokens.Operate, a.reboot},
		{"POST /v1/nodes/{node}/try", tokens.Operate, a.try},
		{"POST /v1/nodes/{node}/approve", tokens.Operate, a.approve},
		{"POST /v1/unit/maintenance", tokens.Operate, a.maintain},
		{"POST /v1/unit/maintenance/end", tokens.Operate, a.endMaintenance},
		{"POST /v1/workloads", tokens.Operate, a.submitWorkloads},
		{"POST /v1/nodes/{node}/slots/{service}/restart", tokens.Operate, a.restartSlot},
		{"GET /v1/nodes/{node}/slots/{service}/logs", tokens.Operate, a.slotLogs},

		{"POST /v1/nodes/{node}/enroll", tokens.Admin, a.enroll},
		{"POST /v1/nodes/{node}/revoke", tokens.Admin, a.revoke},
		{"POST /v1/identities/certify", tokens.Admin, a.certify},
		{"POST /v1/identities/revoke", tokens.Admin, a.disown},
		{"POST /v1/keys/rotate", tokens.Admin, a.rotateKey},
		{"POST /v1/keys/retire", tokens.Admin, a.retireKey},
		{"GET /v1/journal/export", tokens.Admin, a.export},
		{"GET /v1/journal/backup", tokens.Admin, a.backup},
		{"GET /v1/tokens", tokens.Admin, a.listTokens},
		{"POST /v1/tokens", tokens.Admin, a.createToken},
		{"POST /v1/tokens/{token}/revoke", tokens.Admin, a.revokeToken},
	}
}
