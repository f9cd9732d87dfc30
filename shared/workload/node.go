package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// ForNode returns the configurations of one node in the order of configs, each with its ID. Resources with
// one uuid are the same file on a node, so each gets the URLs of all of them (seed 004, urls), those of the
// first slot first. An ID that is made of the content is made before that, so the URLs of another slot do
// not change it.
func ForNode(configs []Config, node string) []Config {
	var mine []Config
	urls := map[string][]string{}
	for _, c := range configs {
		if c.Slot.Node != node {
			continue
		}
		mine = append(mine, c.Identified())
		for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
			r := c.Resources[n]
			for _, u := range r.URLs {
				if r.UUID != "" && !slices.Contains(urls[r.UUID], u) {
					urls[r.UUID] = append(urls[r.UUID], u)
				}
			}
		}
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

// checkShared refuses resources with one uuid on one node if their checksums differ, or if they have more
// URLs together than a resource may have.
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
	for _, c := range configs { // each of them gets the addresses of all
		for _, r := range c.Resources {
			if r.UUID != "" {
				f.spend(long[key{c.Slot.Node, r.UUID}] / bytesOfWork)
			}
		}
	}
}

// Encode writes configurations as Parse reads them, always in the same bytes for the same content.
func Encode(configs []Config) []byte {
	if configs == nil {
		configs = []Config{}
	}
	data, err := json.Marshal(configs, json.Deterministic(true))
	if err != nil {
		panic("workload: configurations cannot be written: " + err.Error()) // texts and numbers only
	}
	return data
}

// Identified returns c with a configurationId: its own, or one made of its content, so that it
// changes when anything in the configuration does (seed 004, configurationId).
func (c Config) Identified() Config {
	if c.ConfigurationID == "" {
		sum := sha256.Sum256(Encode([]Config{c}))
		c.ConfigurationID = "auto-" + hex.EncodeToString(sum[:8])
	}
	return c
}
