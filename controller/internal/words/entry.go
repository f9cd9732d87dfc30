package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// say renders journal entries as text.
type say struct{ kinds kind.Set }

// read decodes data and renders it. It returns false if data cannot be decoded.
func read[T any](data jsontext.Value, text func(T) string) (string, bool) {
	var d T
	if len(data) == 0 || json.Unmarshal(data, &d) != nil {
		return "", false
	}
	return text(d), true
}

func (s say) record(t record.Type, e view.Entry) (string, bool) {
	switch t {
	case record.Opened:
		return read(e.Data, func(d record.OpenedData) string {
			if d.Lost != "" {
				return "the session with the broker has ended: " + d.Lost
			}
			text := strings.TrimSpace(fmt.Sprintf("controller %s, epoch %d", d.Version, d.Epoch))
			return phrase.Remark(text, d.Reason)
		})
	case record.Accepted, record.Refused:
		return read(e.Data, func(d record.Verdict) string { return verdict(e.Kind, &d) })
	case record.Issued:
		text, ok := read(e.Data, func(d record.IssuedData) string { return issued(e.Kind, &d) })
		return text, ok && text != ""
	case record.Withdrawn:
		return read(e.Data, func(d record.WithdrawnData) string {
			return ofKind(e.Kind, "from "+phrase.List(slices.Sorted(slices.Values(d.Nodes))))
		})
	case record.Confirm:
		return read(e.Data, func(d record.TrialOver) string { return ofKind(e.Kind, d.Version) + " stays" })
	case record.RolledBack:
		return read(e.Data, func(d record.TrialOver) string {
			return withError(ofKind(e.Kind, d.Version)+" was not confirmed in time", d.Error)
		})
	case record.State:
		return read(e.Data, func(d record.StateChange) string {
			return withError(phrase.Remark(ofKind(e.Kind, d.State), d.Reason), d.Error)
		})
	case record.Trouble:
		return read(e.Data, func(d record.TroubleData) string {
			text := withError(d.Topic, d.Error)
			if d.Skipped > 0 {
				text += fmt.Sprintf(", and %d more before", d.Skipped)
			}
			return text
		})
	case record.Report:
		return s.report(e)
	case record.Live:
		return read(e.Data, func(l wire.Live) string { return map[bool]string{true: "online", false: "offline"}[l.Up] })
	case record.Event:
		return happened(e)
	case record.Request, record.Reply, record.Note, record.Settings, record.Maintenance:
		return order(t, e)
	case record.Rollout:
		text, ok := read(e.Data, rolled)
		return text, ok && text != ""
	case record.ArtefactLeased, record.ArtefactAdded, record.ArtefactRemoved:
		return artefact(t, e)
	case record.Backup:
		return read(e.Data, func(d record.BackupData) string {
			return fmt.Sprintf("of all up to record %d, %s, for %s", d.Seq, Size(d.Bytes), d.For)
		})
	case record.Trimmed:
		return read(e.Data, func(d record.TrimmedData) string {
			text := fmt.Sprintf("%d records of %d to %d are older or more than is kept", d.Count, d.First, d.Last)
			return phrase.Remark(text, words(d.File))
		})
	}
	return identity(t, e)
}

// artefact renders what happened to the store of artefacts.
func artefact(t record.Type, e view.Entry) (string, bool) {
	switch t {
	case record.ArtefactLeased:
		return read(e.Data, func(d record.ArtefactLeasedData) string {
			return phrase.Remark("upload of "+d.Digest, words(d.Name, Size(d.Size)))
		})
	case record.ArtefactAdded:
		return read(e.Data, func(d record.ArtefactAddedData) string {
			return phrase.Remark(d.Digest, Size(d.Size))
		})
	}
	return read(e.Data, func(d record.ArtefactRemovedData) string {
		if d.Upload {
			return phrase.Remark("upload of "+d.Digest, d.Reason)
		}
		return phrase.Remark(d.Digest, d.Reason)
	})
}

// words joins words; empty ones are left out.
func words(all ...string) string { return strings.Join(strings.Fields(strings.Join(all, " ")), " ") }

// ofKind puts the kind of a document before text about it.
func ofKind(kind, what string) string { return strings.TrimPrefix(kind+" "+what, " ") }

// withError appends an error, if there is one.
func withError(text string, err *wire.Error) string {
	if err == nil {
		return text
	}
	return strings.TrimPrefix(text+": "+Brief(err), ": ")
}

// verdict renders a submission and the answers of the nodes.
func verdict(kind string, d *record.Verdict) string {
	text := ofKind(kind, cmp.Or(d.Version, "that cannot be read"))
	if d.Mode == wire.ModeTry {
		text += ", on trial for " + phrase.Span(d.Within.Std())
	}
	if d.Via != "" {
		text += ", via " + d.Via
	}
	if d.Forced {
		text += ", by force"
	}
	if d.Nothing {
		text += "; it changed nothing"
	}
	if d.Error != nil {
		return withError(text, d.Error)
	}
	c := &d.Checks
	if c.Asked > 0 {
		text += fmt.Sprintf("; %d of %s agreed", c.Agreed, phrase.Plural(c.Asked, "node"))
	}
	if len(c.Silent) > 0 {
		text += "; silent: " + phrase.List(c.Silent)
	}
	if len(c.Unchecked) > 0 {
		text += "; offline: " + phrase.List(c.Unchecked)
	}
	return text
}

// issued renders which nodes got documents; "" for data without documents, which no record has.
func issued(kind string, d *record.IssuedData) string {
	if d.Docs == nil {
		return ""
	}
	var nodes []string
	for _, doc := range d.Docs {
		nodes = append(nodes, doc.Nodes...)
	}
	slices.Sort(nodes)
	text := strings.TrimSpace(ofKind(kind, d.Version))
	if len(nodes) == 0 {
		text += " to nobody"
	} else {
		text += " to " + phrase.List(nodes)
	}
	if d.Mode == wire.ModeTry {
		text += ", on trial"
	}
	if d.Reason == "accepted "+d.Version {
		return text
	}
	return phrase.Remark(text, d.Reason)
}

// requestParams are those parameters of orders to nodes that are shown.
type requestParams struct {
	Reason    string `json:"reason"`
	Component string `json:"component"`
	Version   string `json:"version"`
	Service   string `json:"service"`
	Level     string `json:"level"`
	For       string `json:"for"`
}

// order renders orders of operators, and their results.
func order(t record.Type, e view.Entry) (string, bool) {
	switch t {
	case record.Request:
		return read(e.Data, func(d record.RequestData) string {
			params, _ := read(d.Params, func(p requestParams) string {
				return words(p.Service, p.Component, p.Version, p.Reason, p.Level, p.For)
			})
			return phrase.Remark(string(d.Method), params)
		})
	case record.Reply:
		return read(e.Data, func(d record.ReplyData) string {
			if d.Error == nil {
				return string(d.Method) + ": agreed"
			}
			return string(d.Method) + ": " + Brief(d.Error)
		})
	case record.Note:
		return read(e.Data, func(d view.Remark) string { return d.Text })
	case record.Settings:
		if text, ok := managed(e); ok {
			return text, true
		}
		if text, ok := ofItems(e); ok {
			return text, true
		}
		if text, ok := stopped(e); ok {
			return text, true
		}
		return read(e.Data, func(d record.SettingsData) string {
			if d.Settings == nil {
				return ofKind(e.Kind, "unset for "+Whom(&d.Scope))
			}
			return ofKind(e.Kind, "for ") + Whom(&d.Scope) + ": " + SettingsText(d.Settings)
		})
	}
	if len(e.Data) == 0 {
		return "over", true
	}
	return read(e.Data, func(d record.MaintenanceData) string {
		if d.Until.IsZero() {
			return phrase.Remark("over", d.Reason)
		}
		return phrase.Remark("until "+instant(d.Until), d.Reason)
	})
}

// stopped renders that a workload slot was stopped, or may run again; false: the entry is about something else.
func stopped(e view.Entry) (text string, is bool) {
	text, ok := read(e.Data, func(d record.StopData) string {
		is = d.Slot != workload.Slot{}
		if d.Stopped {
			return d.Slot.String() + " stopped"
		}
		return d.Slot.String() + " may run again"
	})
	return text, ok && is
}

// identity renders enrolment, certificates and signing keys.
func identity(t record.Type, e view.Entry) (string, bool) {
	from := func(address string) string {
		if address == "" {
			return ""
		}
		return ", from " + address
	}
	switch t {
	case record.Enrol:
		return read(e.Data, func(d record.EnrolData) string {
			return d.Subject + " may join until " + instant(d.Expires)
		})
	case record.Proves:
		return read(e.Data, func(d record.ProvesData) string { return d.Subject + " proves what it says" })
	case record.Joined:
		return read(e.Data, func(d record.JoinedData) string {
			text := d.Subject + ", certificate until " + instant(d.Expires) + from(d.From)
			if d.Batch != "" {
				text += ", by the batch " + d.Batch
			}
			return text
		})
	case record.Renewed:
		return read(e.Data, func(d record.RenewedData) string {
			return d.Subject + ", certificate until " + instant(d.Expires) + from(d.From)
		})
	case record.Revoked:
		return read(e.Data, func(d record.RevokedData) string { return phrase.Remark(d.Subject, d.Reason) })
	case record.TokenWithdrawn:
		return read(e.Data, func(d record.TokenWithdrawnData) string {
			return phrase.Remark("nobody joins with the token of "+d.Subject, d.Reason)
		})
	case record.Forgotten:
		return read(e.Data, func(d record.ForgottenData) string {
			return phrase.Remark("no node of the unit any more", d.Reason)
		})
	case record.JoinRefused:
		return read(e.Data, func(d record.JoinRefusedData) string {
			text := withError(d.Subject+from(d.From), d.Error)
			if d.Count > 1 {
				text += fmt.Sprintf(", %d times", d.Count)
			}
			return text
		})
	case record.Batch:
		return read(e.Data, batch)
	case record.CA:
		return read(e.Data, func(d record.CAData) string {
			text := record.CAID(d.CA) + " " + string(d.Did)
			if d.Forced {
				text += ", forced: in the way " + phrase.List(d.Missing)
			}
			return text
		})
	case record.Root:
		return read(e.Data, func(d record.RootData) string {
			return fmt.Sprintf("the list of CAs %d, signed by %s", d.Number, d.By)
		})
	case record.Keys:
		return read(e.Data, func(d record.KeysData) string {
			text := d.Key + " " + string(d.Did)
			if d.Forced {
				text += ", forced: not known to be believed by " + phrase.List(d.Missing)
			}
			return text
		})
	}
	return "", false
}

// batch renders what became of a batch.
func batch(d record.BatchData) string {
	nodes := func(all []record.BatchNode) string {
		texts := make([]string, 0, len(all))
		for _, n := range all {
			texts = append(texts, fmt.Sprintf("%s=%.16s of %s", n.Node, n.Key, n.Batch))
		}
		return phrase.List(texts)
	}
	switch {
	case d.Created != nil:
		how := "each when it was approved"
		if d.Created.OnSight {
			how = "on sight"
		}
		return fmt.Sprintf("%s: %d nodes may join from %s until %s, %s", d.Name, d.Created.Count,
			strings.Join(d.Created.From, ", "), instant(d.Created.Until), how)
	case d.Revoked:
		return phrase.Remark(d.Name+" revoked", d.Reason)
	case len(d.Approved) > 0:
		return "approved " + nodes(d.Approved)
	}
	return phrase.Remark("refused "+nodes(d.Refused), d.Reason)
}
