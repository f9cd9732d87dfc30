package wire

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// NodeInfo is the detail of a reported/info envelope (seed 000, Node Info Change).
type NodeInfo struct {
	Type         string            `json:"type"`                 // the node type, nodeGroupSubject.codename of seed 000
	OS           string            `json:"os"`                   // operating system, as Go names it
	Arch         string            `json:"arch"`                 // processor architecture, as Go names it
	CPUs         int               `json:"cpus"`                 // number of processors
	RAM          uint64            `json:"ram"`                  // bytes
	Partitions   []Partition       `json:"partitions,omitempty"` // of its disks
	Attributes   map[string]string `json:"attributes,omitempty"` // set on the node
	AgentVersion string            `json:"agentVersion"`         // of the agent's program
	Keys         []string          `json:"keys,omitempty"`       // IDs of the signing keys that the node trusts
	Policy       jsontext.Value    `json:"policy,omitempty"`     // what the node is for management policies
	CPU          int64             `json:"cpu,omitzero"`         // DMIPS of the node, as it was set; absent: not known
	Runtimes     []Runtime         `json:"runtimes,omitempty"`   // what runs update items on the node
	Resources    []Shared          `json:"resources,omitempty"`  // of which instances take shares
	Devices      []Shared          `json:"devices,omitempty"`    // of which instances take shares; those that are there
	Subjects     []string          `json:"subjects,omitempty"`   // that the node reports, by codename
	Error        *Error            `json:"error,omitempty"`      // what is wrong with the node itself; absent: nothing
}

// Attributes that agents report beside those that are set on the node; the value is AttributeNone if no other is named.
const (
	AttributeWorkloads  = "tandem.workloads"  // the node runs no workloads
	AttributeBitTorrent = "tandem.bittorrent" // its agent is built without BitTorrent
	AttributeUnproved   = "tandem.unproved"   // it takes no resource that is workload.Artifact.Unproved
	AttributePublishers = "tandem.publishers" // IDs of the publishers' keys, divided by spaces, of which it demands one
	AttributeRoot       = "tandem.root"       // number of the newest list of a root key that it has taken; "": none
	AttributeCA         = "tandem.ca"         // IDs of the CAs that it believes, divided by spaces; older agents: none
	AttributeLimits     = "tandem.limits"     // which constraints it can enforce: the Text of limits.Capabilities
	AttributeSettings   = "tandem.settings"   // which settings its version has brought, divided by spaces

	AttributeHardware  = "tandem.hardware"  // identifies the machine
	AttributeContainer = "tandem.container" // "true": the agent runs in a container

	// AttributeContainers is the container runtime of the node with its version; or AttributeNone, and why behind it.
	AttributeContainers = "tandem.containers"

	AttributeNone = "none"
)

// Partition is one file system of a node that configurations may name.
type Partition struct {
	Name  string   `json:"name"`            // of the partition
	Path  string   `json:"path"`            // where it is mounted
	Size  uint64   `json:"size"`            // bytes
	Types []string `json:"types,omitempty"` // what it is for: storage, state; each of one partition of the node at most
}

// Bounds of what a node tells for placement (items.md, Node).
const (
	maxRuntimes = 64
	maxSubjects = 1024
	maxShort    = 128       // bytes of a text
	maxCPU      = 1 << 30   // DMIPS
	maxRAM      = 1 << 50   // bytes
	maxShares   = 1_000_000 // instances
)

// RuntimeProcess is the ID and type of the runtime that runs services as processes. Every other one that is none of
// ContainerRuntimes is a component.
const RuntimeProcess = "process"

// ContainerRuntimes are the IDs and types of runtimes that run services that are images, the preferred first.
var ContainerRuntimes = []string{"crun", "runc"}

// Runtime runs update items on a node.
type Runtime struct {
	ID           string   `json:"id"`                    // of one runtime of the node
	Type         string   `json:"type"`                  // what items ask for: process, or a component's name
	Architecture string   `json:"architecture"`          // of what it runs, as OCI names it
	Variant      string   `json:"variant,omitempty"`     // of the architecture, as OCI names it
	OS           string   `json:"os,omitempty"`          // of what it runs, as OCI names it
	OSFeatures   []string `json:"osFeatures,omitempty"`  // that it has
	CPU          *int64   `json:"cpu,omitempty"`         // DMIPS that its instances may reserve; absent: the node's
	RAM          *int64   `json:"ram,omitempty"`         // bytes that its instances may reserve; absent: the node's
	MaxInstances int      `json:"maxInstances,omitzero"` // of services; 0: no limit
}

// Shared is a resource or device of a node, of which instances take shares.
type Shared struct {
	Name   string `json:"name"`            // what items ask for
	Shared int    `json:"shared,omitzero"` // instances that may have it at a time; 0: any number
}

const maxKeys = 16 // that a node trusts

// MaxAttributes is the most attributes of a node.
const MaxAttributes = maxList

func (n *NodeInfo) check() error {
	if err := first(plain("/type", n.Type), plain("/os", n.OS), plain("/arch", n.Arch),
		plain("/agentVersion", n.AgentVersion), bounded("/error", n.Error),
		most("/partitions", len(n.Partitions), maxList), most("/attributes", len(n.Attributes), MaxAttributes),
		most("/keys", len(n.Keys), maxKeys)); err != nil {
		return err
	}
	for i, kid := range n.Keys {
		if err := name("/keys/"+strconv.Itoa(i), kid); err != nil {
			return err
		}
	}
	return n.checkOffers()
}

// checkOffers checks what the node tells for placement.
func (n *NodeInfo) checkOffers() error {
	if err := first(ranged("/cpu", n.CPU, maxCPU), most("/runtimes", len(n.Runtimes), maxRuntimes),
		most("/subjects", len(n.Subjects), maxSubjects), shares("/resources", n.Resources),
		shares("/devices", n.Devices)); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range n.Partitions {
		for j, t := range n.Partitions[i].Types {
			at := fmt.Sprintf("/partitions/%d/types/%d", i, j)
			if err := short(at, t); err != nil {
				return err
			}
			if known["for "+t] {
				return New(CodeDuplicate, at, "twice")
			}
			known["for "+t] = true
		}
	}
	for i := range n.Runtimes {
		r, at := &n.Runtimes[i], "/runtimes/"+strconv.Itoa(i)
		if err := r.check(at); err != nil {
			return err
		}
		if known[r.ID] {
			return New(CodeDuplicate, at+"/id", "twice")
		}
		known[r.ID] = true
	}
	for i, s := range n.Subjects {
		at := "/subjects/" + strconv.Itoa(i)
		if err := name(at, s); err != nil {
			return err
		}
		if known["subject "+s] {
			return New(CodeDuplicate, at, "twice")
		}
		known["subject "+s] = true
	}
	return nil
}

func (r *Runtime) check(at string) error {
	err := first(short(at+"/id", r.ID), short(at+"/type", r.Type), short(at+"/architecture", r.Architecture),
		plain(at+"/variant", r.Variant), plain(at+"/os", r.OS),
		most(at+"/osFeatures", len(r.OSFeatures), maxRuntimes),
		ranged(at+"/maxInstances", int64(r.MaxInstances), maxShares))
	if err == nil && r.CPU != nil {
		err = first(ranged(at+"/cpu", *r.CPU, maxCPU))
	}
	if err == nil && r.RAM != nil {
		err = first(ranged(at+"/ram", *r.RAM, maxRAM))
	}
	for i, f := range r.OSFeatures {
		if err == nil {
			err = first(short(at+"/osFeatures/"+strconv.Itoa(i), f))
		}
	}
	return err
}

// shares checks resources or devices: each is named once.
func shares(at string, all []Shared) *Error {
	if err := most(at, len(all), maxList); err != nil {
		return err
	}
	known := map[string]bool{}
	for i, s := range all {
		at := at + "/" + strconv.Itoa(i)
		if err := cmp.Or(short(at+"/name", s.Name), ranged(at+"/shared", int64(s.Shared), maxShares)); err != nil {
			return err
		}
		if known[s.Name] {
			return New(CodeDuplicate, at+"/name", "twice")
		}
		known[s.Name] = true
	}
	return nil
}

// most returns an error if a list is longer than it may be.
func most(path string, n, limit int) *Error {
	if n > limit {
		return New(CodeTooLarge, path, "more than "+strconv.Itoa(limit))
	}
	return nil
}

// ranged returns an error unless n is from 0 to limit.
func ranged(path string, n, limit int64) *Error {
	if n < 0 || n > limit {
		return New(CodeBadValue, path, fmt.Sprintf("not from 0 to %d", limit))
	}
	return nil
}

// short returns an error unless s is plain, and 1 to maxShort bytes long.
func short(path, s string) *Error {
	if len(s) > maxShort {
		return New(CodeTooLarge, path, fmt.Sprintf("longer than %d bytes", maxShort))
	}
	return text(path, s)
}
