package workload

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/shared/near"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// resources reads the resources of a configuration or filler (seed 004, resources).
func (p *parser) resources(a strictjson.At, templates bool) map[string]Artifact {
	all := map[string]Artifact{}
	p.Members(a, MaxMembers, func(n string, e strictjson.At) {
		if why := fileName(n); why != "" {
			p.Bad(e, why)
		}
		all[n] = p.artifact(e, templates)
	})
	return all
}

// artifact reads one resource.
func (p *parser) artifact(e strictjson.At, templates bool) Artifact {
	var r Artifact
	class := &raw{}
	var sized, summed, periodic, verified, unsummed bool
	var verifyAt, signatureAt strictjson.At
	if !p.Object(e,
		strictjson.Required("@class", func(a strictjson.At) {
			class.classAt = a
			if s, ok := p.Str(a); ok {
				class.class = s
				r.Class, _ = p.class(class, []string{"Resource", "DynamicResource"})
			}
		}),
		strictjson.Optional("uuid", func(a strictjson.At) {
			r.UUID = p.str(a, templates)
			if r.UUID == "" {
				p.Bad(a, "a uuid must not be empty")
			}
		}),
		strictjson.Required("urls", func(a strictjson.At) { r.URLs = p.urls(a, templates) }),
		strictjson.Optional("cached", func(a strictjson.At) { r.Cached, _ = p.Bool(a) }),
		strictjson.Optional("size", func(a strictjson.At) {
			sized = true
			if n, ok := p.Whole(a, 0, 1<<53, "a size is a whole number of bytes, 0 for none"); ok {
				r.Size = int64(n)
			}
		}),
		strictjson.Optional("unpack", func(a strictjson.At) { r.Unpack = p.unpack(a) }),
		strictjson.Optional("encrypted", func(a strictjson.At) { r.Encrypted = p.encrypted(a) }),
		strictjson.Required("verification", func(a strictjson.At) {
			verifyAt, verified = a, true
			p.Object(a,
				strictjson.Optional("checksum", func(a strictjson.At) {
					summed = true
					r.Verification.Checksum, unsummed = p.checksum(a, templates)
				}),
				strictjson.Optional("checkPeriod", func(a strictjson.At) {
					periodic = true
					s, ok := p.Str(a)
					if !ok {
						return
					}
					var err error
					if r.Verification.CheckPeriod, err = ParseCheckPeriod(s); err != nil {
						p.Bad(a, err.Error())
					}
				}),
				strictjson.Optional("minisign", func(a strictjson.At) {
					signatureAt = a
					r.Verification.Minisign = p.minisign(a, templates)
				}),
			)
		}),
	) {
		return r
	}
	sum := r.Verification.Checksum
	if known := sum != "" || !summed; known && r.Verification.Minisign != "" && !holds(sum) &&
		!(templates && isTemplate(sum)) {
		p.Add(signatureAt, wire.CodeMissing, unheld)
	}
	if !sized {
		p.tolerable(strictjson.At{Ptr: strictjson.Member(e.Ptr, "size"), Off: e.Off}, wire.CodeMissing,
			`the required field "size" is missing`, "; read as 0, which reserves nothing", "size", "0")
	}
	if !verified || r.UUID != "" {
		return r
	}
	if !summed || unsummed && !p.stored {
		p.Add(strictjson.At{Ptr: strictjson.Member(verifyAt.Ptr, "checksum"), Off: verifyAt.Off}, wire.CodeMissing,
			nameless)
	}
	if !periodic {
		p.tolerable(strictjson.At{Ptr: strictjson.Member(verifyAt.Ptr, "checkPeriod"), Off: verifyAt.Off},
			wire.CodeMissing, `"checkPeriod" is required where there is no uuid`,
			"; read as 0d0h0m, which is never again", "checkPeriod", `"0d0h0m"`)
	}
	return r
}

// nameless says what is wrong with a resource that has neither a uuid nor the checksum of a content: it could not be
// told
// from others.
const nameless = "a resource needs a checksum or a uuid"

// urls reads the addresses of a resource: at least one, each only once.
func (p *parser) urls(a strictjson.At, templates bool) []string {
	var list []string
	p.Array(a, MaxURLs, func(i int, e strictjson.At) {
		s := p.str(e, templates)
		list = append(list, s)
		if templates && isTemplate(s) {
			return
		}
		if err := checkURL(s, p.stored); err != nil {
			p.Bad(e, err.Error())
		} else if slices.Index(list, s) < i {
			p.Add(e, wire.CodeDuplicate, "this URL is there already")
		}
	})
	if len(list) == 0 && !p.Over() {
		p.Add(a, wire.CodeMissing, "at least one URL is needed")
	}
	return list
}

// checksum reads a checksum; "" if it is malformed. empty says that it is that of no content. A template is not checked
// before it is filled.
func (p *parser) checksum(a strictjson.At, templates bool) (s string, empty bool) {
	s = p.str(a, templates)
	if templates && isTemplate(s) {
		return s, false
	}
	if sum, err := hex.DecodeString(s); err == nil && len(sum) == sumBytes[MD5] {
		p.tolerable(a, wire.CodeBadValue, "a checksum begins with its algorithm: MD5:"+s, "; read so", "", MD5+":")
		s = MD5 + ":" + s
	}
	algorithm, _, err := ParseChecksum(s)
	if err != nil {
		p.Bad(a, err.Error())
		return "", false
	}
	if !p.stored {
		s = canonical(s)
	}
	return s, algorithm == Empty
}

// minisign reads a publisher's signature; "" if it is malformed. A template is not checked before it is filled.
func (p *parser) minisign(a strictjson.At, templates bool) string {
	s, ok := p.Str(a)
	switch {
	case !ok:
		return ""
	case templates && isTemplate(s):
		if err := checkTemplate(s); err != nil {
			p.Bad(a, err.Error())
		}
		return s
	}
	if _, err := publisher.Parse(s); err != nil {
		p.Bad(a, malformedSignature(err))
		return ""
	}
	return s
}

// unheld says what is wrong with a signature without a checksum that names one content: what the store has of the
// resource could be another one than that which was verified.
const unheld = "a resource with a signature needs a checksum of SHA256, too"

// malformedSignature says that a text is no signature, and why.
func malformedSignature(err error) string { return "it is not what minisign writes: " + err.Error() }

// holds reports whether a checksum names one content for good.
func holds(checksum string) bool {
	algorithm, _, err := ParseChecksum(checksum)
	return err == nil && algorithm == SHA256
}

// defect is a reason why a configuration cannot be run.
type defect struct {
	code    wire.Code
	limit   string // name of the time limit that is wrong; "": the resources are
	message string
}

// defects returns the reasons why a configuration with this container, resources and time limits cannot be run.
func defects(container *Container, resources map[string]Artifact, limits map[string]Limit) []defect {
	var all []defect
	if _, ok := resources[HookStart]; !ok {
		all = append(all, defect{wire.CodeMissing, "",
			"a resource called " + HookStart + " is needed: the program to run"})
	}
	if _, ok := resources[HookNotify]; !ok {
		for _, n := range slices.Sorted(maps.Keys(resources)) {
			if resources[n].Class == DynamicResource {
				all = append(all, defect{wire.CodeMissing, "", fmt.Sprintf("%s is dynamic: a resource called %s is "+
					"needed, which tells the running program of another one", strictjson.Show(n), HookNotify)})
				break
			}
		}
	}
	all = append(all, unpackable(resources)...)
	all = append(all, undecryptable(resources)...)
	all = append(all, container.defects(resources)...)
	for _, n := range slices.Sorted(maps.Keys(limits)) {
		if _, ok := resources[n]; !ok || !strings.HasPrefix(n, hookPrefix) {
			all = append(all, defect{wire.CodeBadValue, n, fmt.Sprintf("time limits are for hooks that are among the "+
				"resources; %s is none%s", strictjson.Show(n), near.Hint(n, hooksOf(resources)))})
		}
	}
	return all
}

// hooksOf returns the names of the hooks among resources, sorted.
func hooksOf(resources map[string]Artifact) []string {
	return slices.DeleteFunc(slices.Clone(Hooks), func(n string) bool { _, ok := resources[n]; return !ok })
}
