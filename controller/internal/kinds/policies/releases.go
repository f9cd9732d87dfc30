package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// KindReleases is the source of the versions of the agent that are on offer.
const KindReleases = record.KindReleases

// Releases are the versions of the agent that are on offer.
type Releases struct {
	List      map[string]*Release          `json:"releases,omitempty"`  // by version
	Withdrawn map[string]map[string]string `json:"withdrawn,omitempty"` // hashes of builds by architecture, by version
}

// Release is one of them. It is never changed: another program is another version.
type Release struct {
	Builds []view.AgentBuild `json:"builds"`
	Rev    uint64            `json:"rev"`
	At     time.Time         `json:"at"`
	Who    string            `json:"who,omitempty"`
}

// Offer is the change that puts a version on offer, or takes it back. It is the data of its records.
type Offer = record.ReleaseData

// Bounds of one version.
const (
	maxBuilds  = 16   // one for each architecture
	maxAddress = 1024 // bytes of one

	maxWithdrawn = 256 // versions that are remembered, the highest
)

func releaseFold() *kind.Fold {
	return kind.JSON[Offer, Releases](kind.Fold{
		Reason: "versions of the agent on offer changed",
		Judge:  judgeOffer, Weigh: weighOffer, Apply: applyOffer,
	})
}

// judgeOffer says why a change is refused.
func judgeOffer(c kind.Content, data any) *wire.Error {
	r, d := releasesOf(c), data.(Offer)
	if _, err := unitconfig.Compare(d.Version, d.Version); err != nil {
		return wire.New(wire.CodeInvalidArgument, "/version", wire.AsError(err).Message)
	}
	had := r.List[d.Version]
	switch {
	case d.Removed && had == nil:
		return wire.New(wire.CodeNotFound, "", fmt.Sprintf("version %s of the agent is not on offer", d.Version))
	case d.Removed:
		return nil
	case had != nil:
		return wire.New(wire.CodeAlreadyExists, "/version", fmt.Sprintf("version %s of the agent is on offer since "+
			"%s; what a version is does not change: release another one", d.Version, had.At.UTC().Format(time.RFC3339)))
	case len(r.List) >= wire.MaxReleases:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("%d versions are on offer: remove those that no node needs",
			wire.MaxReleases))
	case len(d.Builds) == 0 || len(d.Builds) > maxBuilds:
		return wire.New(wire.CodeBadValue, "/builds", fmt.Sprintf("from 1 to %d, one for each architecture", maxBuilds))
	}
	for _, v := range r.versions() {
		if c, err := unitconfig.Compare(v, d.Version); err == nil && c == 0 {
			return wire.New(wire.CodeAlreadyExists, "/version", fmt.Sprintf("version %s is on offer, which is neither "+
				"higher nor lower: what is behind the + does not count", v))
		}
	}
	seen := map[string]bool{}
	for i := range d.Builds {
		b, at := &d.Builds[i], fmt.Sprintf("/builds/%d", i)
		if hash := r.Withdrawn[d.Version][b.Arch]; hash != "" && hash != b.Hash {
			return wire.New(wire.CodeAlreadyExists, at+"/hash", fmt.Sprintf("version %s was on offer with another "+
				"program for %s, %s; what a version is does not change: release another one", d.Version, b.Arch, hash))
		}
		if seen[b.Arch] {
			return wire.New(wire.CodeDuplicate, at+"/arch", fmt.Sprintf("%.64q has a build already", b.Arch))
		}
		seen[b.Arch] = true
		if err := checkBuild(b, d.Version, at); err != nil {
			return err
		}
	}
	return nil
}

// weighOffer refuses what nodes would look for in the controller's store in vain.
func weighOffer(u kind.Unit, _ kind.Content, data any) *wire.Error {
	d := data.(Offer)
	for i := range d.Builds {
		b, at := &d.Builds[i], fmt.Sprintf("/builds/%d", i)
		if !b.Stored {
			continue
		}
		switch size, there := u.Artefact(b.Hash); {
		case !there:
			return wire.New(wire.CodeNotFound, at+"/hash", "the controller's store has no artefact "+b.Hash+
				": add it first (tandem artefact add)")
		case size != b.Size:
			return wire.New(wire.CodeBadValue, at+"/size", fmt.Sprintf("the artefact has %d bytes", size))
		}
	}
	return nil
}

// maxBrings bounds the settings that a version brings.
const maxBrings = 256

func checkBuild(b *view.AgentBuild, version, at string) *wire.Error {
	if b.Arch == "" || len(b.Arch) > 32 || !wire.ValidName(b.Arch) {
		return wire.New(wire.CodeBadValue, at+"/arch", "a processor architecture, as Go names it: amd64, arm64, arm")
	}
	if err := wire.CheckHash(at+"/hash", b.Hash); err != nil {
		return err
	}
	if b.Size <= 0 {
		return wire.New(wire.CodeBadValue, at+"/size", "the size of the program, in bytes")
	}
	if n := len(addresses(b)); n == 0 || n > wire.MaxAddresses {
		return wire.New(wire.CodeBadValue, at+"/urls", fmt.Sprintf("from 1 to %d addresses, with that of the store",
			wire.MaxAddresses))
	}
	for i, text := range b.URLs {
		err := workload.CheckURL(text)
		if err == nil && len(text) > maxAddress {
			err = fmt.Errorf("an address of at most %d bytes", maxAddress)
		}
		if err != nil {
			return wire.New(wire.CodeBadValue, fmt.Sprintf("%s/urls/%d", at, i), err.Error())
		}
	}
	if !b.Stored && !slices.ContainsFunc(b.URLs, notTorrent) {
		return wire.New(wire.CodeBadValue, at+"/urls", "nodes without BitTorrent need an http or https address, or "+
			"that of the controller's store")
	}
	if len(b.Brings) > maxBrings {
		return wire.New(wire.CodeTooLarge, at+"/brings", fmt.Sprintf("more than %d", maxBrings))
	}
	for i, name := range b.Brings {
		if !wire.ValidName(name) {
			return wire.New(wire.CodeBadValue, fmt.Sprintf("%s/brings/%d", at, i), "the name of a setting")
		}
	}
	if b.Minisign == "" {
		return nil
	}
	sig, err := publisher.Parse(b.Minisign)
	if err == nil {
		err = sig.Names(publisher.Release{Name: publisher.AgentName, Version: version})
	}
	if err != nil {
		return wire.New(wire.CodeBadValue, at+"/minisign", err.Error())
	}
	return nil
}

// addresses are where nodes fetch a build.
func addresses(b *view.AgentBuild) []string {
	if !b.Stored {
		return b.URLs
	}
	return append([]string{jointoken.ArtefactURL(b.Hash)}, b.URLs...)
}

func notTorrent(address string) bool { return !workload.IsTorrent(address) }

// torrents reports whether anything is on offer by BitTorrent, too.
func (r *Releases) torrents() bool {
	for _, release := range r.List {
		for i := range release.Builds {
			if slices.ContainsFunc(release.Builds[i].URLs, workload.IsTorrent) {
				return true
			}
		}
	}
	return false
}

// artefacts calls each for every build in the controller's store that is on offer.
func (r *Releases) artefacts(each func(digest, by string)) {
	for version, release := range r.List {
		for _, b := range release.Builds {
			if b.Stored {
				each(b.Hash, "version "+version+" of the agent, which is on offer")
			}
		}
	}
}

// named lists the builds that a node's document names.
func named(_ string, body []byte) (digests []string) {
	doc, err := wire.Decode[wire.Policies](body)
	if err != nil {
		return nil
	}
	for _, r := range doc.Agents {
		digests = append(digests, r.Hash)
	}
	return digests
}

func applyOffer(c kind.Content, at kind.Change, data any) kind.Content {
	old, d := releasesOf(c), data.(Offer)
	next := &Releases{List: maps.Clone(old.List), Withdrawn: old.Withdrawn}
	if d.Removed {
		next.withdraw(d.Version)
		return next
	}
	if next.List == nil {
		next.List = map[string]*Release{}
	}
	next.List[d.Version] = &Release{Builds: d.Builds, Rev: at.Seq, At: at.At, Who: at.Who}
	return next
}

// withdraw takes a version off the offer, and remembers what it was.
func (r *Releases) withdraw(version string) {
	hashes := map[string]string{}
	maps.Copy(hashes, r.Withdrawn[version])
	for _, b := range r.List[version].Builds {
		hashes[b.Arch] = b.Hash
	}
	delete(r.List, version)
	r.Withdrawn = maps.Clone(r.Withdrawn)
	if r.Withdrawn == nil {
		r.Withdrawn = map[string]map[string]string{}
	}
	r.Withdrawn[version] = hashes
	if len(r.Withdrawn) > maxWithdrawn {
		delete(r.Withdrawn, slices.MinFunc(slices.Collect(maps.Keys(r.Withdrawn)), byVersion))
	}
}

// For returns nothing: the documents are made by the kind.
func (r *Releases) For(kind.Facts) *kind.Body { return nil }

func releasesOf(c kind.Content) *Releases {
	if r, ok := c.(*Releases); ok {
		return r
	}
	return &Releases{}
}

// versions lists the versions on offer, the lowest first.
func (r *Releases) versions() []string { return slices.SortedFunc(maps.Keys(r.List), byVersion) }

// byVersion compares versions that were judged.
func byVersion(a, b string) int {
	c, err := unitconfig.Compare(a, b)
	if err != nil {
		panic("policies: a version that was judged: " + err.Error())
	}
	return cmp.Or(c, strings.Compare(a, b))
}

// offers returns what is on offer to nodes of an architecture, the lowest version first; plain: without the addresses
// that only BitTorrent can fetch from.
func (r *Releases) offers(arch string, plain bool) (all []wire.AgentRelease) {
	for _, version := range r.versions() {
		for i := range r.List[version].Builds {
			if b := &r.List[version].Builds[i]; b.Arch == arch {
				from := addresses(b)
				if plain {
					from = slices.DeleteFunc(slices.Clone(from), workload.IsTorrent)
				}
				all = append(all, wire.AgentRelease{Version: version, Hash: b.Hash, Size: b.Size, URLs: from,
					Minisign: b.Minisign})
			}
		}
	}
	return all
}
