// Package config is the kind config: documents of this kind are the node's config.json (seed 000), which the node's
// software is told of, and bring the alert rules.
package config

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/configfile"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Config is what the kind goes by.
type Config struct {
	Path    string // of config.json, absolute
	ID      inbox.Identity
	Rules   unitconfig.LocalRules // what the node takes
	OnApply string                // the on-apply command, words separated by white space; empty: none
	Timeout time.Duration         // of one run of it
	Observe bool                  // config.json that somebody altered is reported and left as it is
	Steps   durable.Steps         // nil: no faults
	Run     configfile.Run        // runs the command
	Alerts  func([]alert.Rule)    // is told the rules that are in force, on the owner's goroutine
}

// Look is how often the node looks whether config.json is still what it wrote.
const Look = 30 * time.Second

// New makes the kind.
func New(cfg Config) (kind.Kind, error) {
	if err := durable.Clean(cfg.Path); err != nil {
		return kind.Kind{}, fmt.Errorf("state directory: %w", err)
	}
	return kind.New(kind.Spec[*unitconfig.NodeConfig]{
		Name:  wire.KindConfig,
		Vital: true,
		Look:  Look,
		Parse: parse,
		Check: cfg.check,
		Place: &configfile.Applier{Path: cfg.Path, ID: cfg.ID, Command: strings.Fields(cfg.OnApply),
			Timeout: cfg.Timeout, Observe: cfg.Observe, Steps: cfg.Steps, Run: cfg.Run},
		InForce: func(doc kind.Document[*unitconfig.NodeConfig]) {
			var rules []alert.Rule
			if doc.Exists() {
				rules = alert.Rules(doc.Content.AlertRules)
			}
			cfg.Alerts(rules)
		},
	}), nil
}

func parse(doc inbox.Doc) (*unitconfig.NodeConfig, []*wire.Error) {
	nc, problems := unitconfig.ParseNode(doc.Body)
	if nc == nil {
		return nil, problems
	}
	return nc, nil
}

// check lists what the node's own rules say against a document.
func (c Config) check(doc kind.Document[*unitconfig.NodeConfig]) []*wire.Error {
	nc := doc.Content
	var errs []*wire.Error
	if nc.Version != doc.Version {
		errs = append(errs, wire.New(wire.CodeBadValue, "/version",
			fmt.Sprintf("version %q in an envelope of version %q", nc.Version, doc.Version)))
	}
	if nc.Node != nil && nc.Node.Codename != c.ID.Node {
		errs = append(errs, wire.New(wire.CodeWrongTarget, "/node/codename",
			fmt.Sprintf("for node %q; this is node %q", nc.Node.Codename, c.ID.Node)))
	}
	return append(errs, c.Rules.Check(nc)...)
}
