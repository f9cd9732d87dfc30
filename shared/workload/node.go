package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// ByNode returns the configurations by the IDs of their nodes.
func (f *Filled) ByNode() map[string][]Config {
	all := map[string][]Config{}
	for _, c := range f.Configs {
		all[c.Slot.Node] = append(all[c.Slot.Node], c)
	}
	return all
}

// sameFile is what the resources of one uuid say on a node.
type sameFile struct {
	urls   []string // of all, each once
	first  []string // of the first
	differ bool     // another one has another list
}

// addresses returns the URLs that each of the resources gets. Lists that differ have equal priority (seed 004, urls):
// the
// order is then one that favours none, and is another one on other nodes.
func (s *sameFile) addresses(node, uuid string) []string {
	if !s.differ {
		return s.urls
	}
	draw := func(u string) string {
		sum := sha256.Sum256([]byte(node + "\x00" + uuid + "\x00" + u))
		return string(sum[:])
	}
	return slices.SortedFunc(slices.Values(s.urls), func(a, b string) int { return strings.Compare(draw(a), draw(b)) })
}

// ForNode returns the configurations of one node, in the order of configs, each with a configurationId. Resources with
// the same uuid are the same file on a node, so each gets the URLs of all of them (seed 004, urls). A configurationId
// that is derived from the content does not depend on the URLs of other slots.
func ForNode(configs []Config, node string) []Config {
	var mine []Config
	files := map[string]*sameFile{} // by uuid
	for _, c := range configs {
		if c.Slot.Node != node {
			continue
		}
		mine = append(mine, c.Identified())
		for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
			r := c.Resources[n]
			if r.UUID == "" {
				continue
			}
			file := files[r.UUID]
			if file == nil {
				file = &sameFile{first: r.URLs}
				files[r.UUID] = file
			}
			file.differ = file.differ || !slices.Equal(r.URLs, file.first)
			for _, u := range r.URLs {
				if !slices.Contains(file.urls, u) {
					file.urls = append(file.urls, u)
				}
			}
		}
	}
	urls := map[string][]string{}
	for uuid, file := range files {
		urls[uuid] = file.addresses(node, uuid)
	}
	for i := range mine {
		mine[i].Resources = maps.Clone(mine[i].Resources)
		for n, r := range mine[i].Resources {
			if r.UUID != "" {
				r.URLs = urls[r.UUID]
				mine[i].Resources[n] = r
			}
		}
	}
	return mine
}

// checkShared reports resources with the same uuid on one node whose checksums differ, or which together have more than
// MaxURLs addresses.
func (f *filling) checkShared(configs []Config) {
	type key struct{ node, uuid string }
	urls := map[key]map[string]bool{}
	long := map[key]int{} // bytes of all addresses
	type known struct {
		slot Slot
		sum  string
	}
	first := map[key]known{}
	for _, c := range configs {
		for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
			r := c.Resources[n]
			k := key{c.Slot.Node, r.UUID}
			if r.UUID != "" && urls[k] == nil {
				urls[k] = map[string]bool{}
			}
			for _, u := range r.URLs {
				if r.UUID == "" || urls[k][u] {
					continue
				}
				if urls[k][u], long[k] = true, long[k]+len(u); len(urls[k]) == MaxURLs+1 {
					f.add(f.slot(c.Slot), wire.CodeTooLarge, strictjson.Member(atResources, n), "slot %s: the uuid "+
						"%s has more than %d addresses on this node, all slots together", c.Slot,
						strictjson.Show(r.UUID), MaxURLs)
				}
			}
			algorithm, _, err := ParseChecksum(r.Verification.Checksum)
			if r.UUID == "" || err != nil || algorithm == Empty {
				continue
			}
			if other, seen := first[k]; seen && other.sum != r.Verification.Checksum {
				f.add(f.slot(c.Slot), wire.CodeDuplicate, strictjson.Member(atResources, n), "slot %s: the uuid %s "+
					"has another checksum in slot %s; one uuid is one content", c.Slot, strictjson.Show(r.UUID),
					other.slot)
				continue
			}
			first[k] = known{c.Slot, r.Verification.Checksum}
		}
	}
	for _, c := range configs { // each such resource gets the addresses of all
		for _, r := range c.Resources {
			if r.UUID != "" {
				f.spend(long[key{c.Slot.Node, r.UUID}] / bytesOfWork)
			}
		}
	}
}

// Encode returns configurations as JSON that Parse reads. Equal input gives equal bytes.
func Encode(configs []Config) []byte {
	if configs == nil {
		configs = []Config{}
	}
	data, err := json.Marshal(configs, json.Deterministic(true))
	if err != nil {
		panic("workload: configurations cannot be written: " + err.Error()) // cannot happen: they are texts and numbers
	}
	return data
}

// Identified returns c with a configurationId (seed 004, configurationId). If c has none, it is auto- and 16
// hexadecimal digits of the SHA-256 of its content.
func (c Config) Identified() Config {
	if c.ConfigurationID == "" {
		sum := sha256.Sum256(Encode([]Config{c}))
		c.ConfigurationID = "auto-" + hex.EncodeToString(sum[:8])
	}
	return c
}
