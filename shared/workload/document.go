package workload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// DocumentFormat is the format version of a desired document of kind workloads.
const DocumentFormat = "1"

// document is the body of a desired document of kind workloads. It has either Workloads or Packed.
type document struct {
	FormatVersion string         `json:"formatVersion"`
	Workloads     jsontext.Value `json:"workloads,omitzero"`
	// Packed is Workloads compressed with gzip (RFC 1952), if the body would exceed wire.MaxBody without.
	Packed []byte `json:"packed,omitempty"`
	// Stopped has the services that an operator has stopped. An agent that does not know it refuses it by its name.
	Stopped []string `json:"stopped,omitempty"`
}

// EncodeDocument returns the body of a document with the configurations of one node, as ForNode returns them. Equal
// input gives equal bytes. The error has code too-large if the body exceeds wire.MaxBody even when compressed, or if
// it would be more than MaxDocument or MaxEntries when it is unpacked, which ParseDocument refuses.
func EncodeDocument(configs []Config) ([]byte, *wire.Error) {
	if len(configs) > MaxEntries {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("this node is to have %d slots; a node has at most %d",
			len(configs), MaxEntries))
	}
	identified := make([]Config, len(configs))
	for i, c := range configs {
		identified[i] = c.Identified()
	}
	d := document{FormatVersion: DocumentFormat, Workloads: Encode(identified)}
	for _, c := range configs {
		if c.Stopped {
			d.Stopped = append(d.Stopped, c.Slot.Service)
		}
	}
	if len(d.Workloads) > MaxDocument {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("what this node is to run takes %d bytes; "+
			"a node reads at most %d", len(d.Workloads), MaxDocument))
	}
	body := marshal(&d)
	if len(body) > wire.MaxBody {
		d.Packed, d.Workloads = pack(d.Workloads), nil
		body = marshal(&d)
	}
	if len(body) > wire.MaxBody {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("what this node is to run takes %d bytes even when "+
			"compressed; a document has at most %d", len(body), wire.MaxBody))
	}
	return body, nil
}

func marshal(d *document) []byte {
	body, err := json.Marshal(d)
	if err != nil {
		// It cannot happen: a document has valid JSON and bytes only.
		panic("workload: a document cannot be written: " + err.Error())
	}
	return body
}

// pack compresses data with gzip.
func pack(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("workload: a document cannot be packed: " + err.Error()) // cannot happen: it writes to memory
	}
	return b.Bytes()
}

// ParseDocument reads the body of a document of kind workloads for the node of that ID. It is strict: each
// configuration must be an instance or a job that can be run, be for this node, have a configurationId, and have a slot
// of its own. Nobody but the node sees the body, so an error about a slot names it, and has the JSON pointer into its
// configuration.
func ParseDocument(body []byte, node string) ([]Config, []*wire.Error) {
	var d document
	if err := json.Unmarshal(body, &d, json.RejectUnknownMembers(true)); err != nil {
		return nil, []*wire.Error{wire.AsError(err)}
	}
	at := "/workloads"
	switch {
	case d.FormatVersion != DocumentFormat:
		return nil, []*wire.Error{wire.New(wire.CodeWrongVersion, "/formatVersion",
			fmt.Sprintf("format %.16q; this side knows %q", d.FormatVersion, DocumentFormat))}
	case (len(d.Workloads) == 0) == (len(d.Packed) == 0):
		return nil, []*wire.Error{wire.New(wire.CodeMissing, at, "exactly one of workloads and packed is needed")}
	case len(d.Packed) > 0:
		at = "/packed"
		data, err := unpack(d.Packed)
		if err != nil {
			return nil, []*wire.Error{wire.New(wire.CodeBadValue, at, err.Error())}
		}
		d.Workloads = data
	}
	set, problems := parse(d.Workloads, &parser{stored: true}) // it was judged when it was submitted
	if problems != nil {
		return nil, aboutSlots(d.Workloads, at, problems)
	}
	if len(set.Topologies)+len(set.Fillers) > 0 {
		return nil, []*wire.Error{wire.New(wire.CodeBadValue, at, "a node is given instances and jobs only")}
	}
	for i, service := range d.Stopped {
		at := slices.IndexFunc(set.Configs, func(c Config) bool { return c.Slot.Service == service })
		if at < 0 || set.Configs[at].Stopped {
			return nil, []*wire.Error{wire.New(wire.CodeBadValue, "/stopped/"+strconv.Itoa(i),
				About(Slot{service, node}, "it is stopped, and not in this document, or twice"))}
		}
		set.Configs[at].Stopped = true
	}
	for _, c := range set.Configs {
		switch {
		case c.Slot.Node != node:
			return nil, []*wire.Error{wire.New(wire.CodeWrongTarget, "/slot",
				fmt.Sprintf("slot %s is not on node %q", c.Slot, node))}
		case c.ConfigurationID == "":
			return nil, []*wire.Error{wire.New(wire.CodeMissing, "/configurationId",
				About(c.Slot, "required in what a node is given"))}
		}
	}
	return set.Configs, nil
}

// About returns a message about a slot.
func About(s Slot, message string) string { return "slot " + s.String() + ": " + message }

// aboutSlots returns problems of an array of configurations, each with the slot that it is about. One that is about no
// slot keeps its place, below at.
func aboutSlots(configs jsontext.Value, at string, problems Problems) (errs []*wire.Error) {
	var all []struct {
		Slot Slot `json:"slot"`
	}
	named := json.Unmarshal(configs, &all) == nil
	for _, p := range problems {
		element, rest, _ := strings.Cut(strings.TrimPrefix(p.Path, "/"), "/")
		if i, err := strconv.Atoi(element); named && err == nil && i < len(all) {
			errs = append(errs, wire.New(p.Code, "/"+rest, About(all[i].Slot, p.Message)))
			continue
		}
		errs = append(errs, wire.New(p.Code, at+p.Path, p.Message))
	}
	return errs
}

// unpack decompresses what pack returns; more than MaxDocument bytes are an error.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("not compressed as RFC 1952 says: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("not compressed as RFC 1952 says: %w", err)
	}
	if len(data) > MaxDocument {
		return nil, fmt.Errorf("more than %d bytes when unpacked", MaxDocument)
	}
	return data, nil
}
