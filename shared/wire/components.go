package wire

import (
	"strconv"
	"time"
)

// Components is the body of a document of the kind components: which versions the components of a node should have
// (seed 001), beside the agent itself, whose version policies say.
type Components struct {
	FormatVersion string          `json:"formatVersion"`        // ComponentsFormat
	Components    []NodeComponent `json:"components,omitempty"` // of the node, each once
}

// ComponentsFormat is the format of Components.
const ComponentsFormat = "1"

// NodeComponent is a version that a component of a node should have.
type NodeComponent struct {
	Name     string   `json:"name"`               // of the component, as the node's settings have it
	Item     string   `json:"item"`               // codename of the update item
	Version  string   `json:"version"`            // of the item
	Hash     string   `json:"hash"`               // of the file to install, sha256:…
	Size     int64    `json:"size"`               // of the file, bytes
	URLs     []string `json:"urls"`               // where it is to be had
	Minisign string   `json:"minisign,omitempty"` // a publisher's signature of the file
	After    []string `json:"after,omitempty"`    // names of components that have to have their versions before
	// the file that the URLs lead to; nil: they lead to the file to install
	Encrypted *Encrypted `json:"encrypted,omitempty"`
}

// ComponentState is how far a component is with its version; the names are those of item states of AosEdge's protocol,
// version 7.
type ComponentState string

// The states.
const (
	ComponentPending     ComponentState = "pending"     // it waits: for another component, or for another trial
	ComponentDownloading ComponentState = "downloading" // the file is being fetched
	ComponentInstalling  ComponentState = "installing"  // it is installed, tried, or given up
	ComponentInstalled   ComponentState = "installed"   // the component has the version
	ComponentFailed      ComponentState = "failed"      // it has not got the version, and why
)

// ComponentsReport is the detail of a reported/components envelope.
type ComponentsReport struct {
	Components []ComponentStatus `json:"components,omitempty"` // in the document's order
}

// ComponentStatus is how far a component is.
type ComponentStatus struct {
	Name    string         `json:"name"`            // of the component
	Item    string         `json:"item"`            // codename of the update item
	Version string         `json:"version"`         // that it should have
	State   ComponentState `json:"state"`           // how far it is
	Error   *Error         `json:"error,omitempty"` // what went wrong, or is in the way
	Again   time.Time      `json:"again,omitzero"`  // failed: when it is tried again; absent: it is not
}

// MaxComponents is the most components of a node.
const MaxComponents = 32

func (c *Components) check() error {
	if c.FormatVersion != ComponentsFormat {
		return New(CodeWrongVersion, "/formatVersion", "this agent reads format "+ComponentsFormat)
	}
	if err := most("/components", len(c.Components), MaxComponents); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range c.Components {
		n, at := &c.Components[i], "/components/"+strconv.Itoa(i)
		if err := first(name(at+"/name", n.Name), name(at+"/item", n.Item), text(at+"/version", n.Version),
			hash(at+"/hash", n.Hash)); err != nil {
			return err
		}
		switch {
		case known[n.Name]:
			return New(CodeDuplicate, at+"/name", "the component "+n.Name+" is there already")
		case n.Size <= 0:
			return New(CodeBadValue, at+"/size", "the size of the file, in bytes")
		case n.Encrypted == nil:
		case n.Encrypted.Size <= 0:
			return New(CodeBadValue, at+"/encrypted/size", "the size of the encrypted file, in bytes")
		}
		if n.Encrypted != nil {
			if err := hash(at+"/encrypted/digest", n.Encrypted.Digest); err != nil {
				return err
			}
		}
		if err := first(addresses(at+"/urls", n.URLs), most(at+"/after", len(n.After), MaxComponents)); err != nil {
			return err
		}
		for j, other := range n.After {
			if err := name(at+"/after/"+strconv.Itoa(j), other); err != nil {
				return err
			}
		}
		known[n.Name] = true
	}
	return nil
}

func (r *ComponentsReport) check() error {
	if err := most("/components", len(r.Components), MaxComponents); err != nil {
		return err
	}
	for i := range r.Components {
		s, at := &r.Components[i], "/components/"+strconv.Itoa(i)
		if err := first(name(at+"/name", s.Name), name(at+"/item", s.Item), text(at+"/version", s.Version),
			text(at+"/state", string(s.State)), bounded(at+"/error", s.Error)); err != nil {
			return err
		}
	}
	return nil
}
