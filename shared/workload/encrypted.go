package workload

import (
	"fmt"
	"maps"
	"slices"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// maxEncrypted is the most bytes of an encrypted file.
const maxEncrypted = 1 << 40

// encrypted reads which file a resource comes in.
func (p *parser) encrypted(a strictjson.At) *wire.Encrypted {
	var e wire.Encrypted
	p.Object(a,
		strictjson.Required("digest", func(a strictjson.At) {
			var ok bool
			if e.Digest, ok = p.Str(a); ok && !wire.ValidHash(e.Digest) {
				p.Bad(a, "the digest of the encrypted file is sha256: and 64 lower-case hexadecimal digits")
			}
		}),
		strictjson.Required("size", func(a strictjson.At) {
			n, _ := p.Whole(a, 1, maxEncrypted,
				fmt.Sprintf("the size of the encrypted file is a whole number of bytes, 1 to %d", int64(maxEncrypted)))
			e.Size = int64(n)
		}))
	return &e
}

// undecryptable returns the reasons why resources cannot come encrypted: who reads one has to know what should be in
// it, and BitTorrent would spread what is in it.
func undecryptable(resources map[string]Artifact) (all []defect) {
	for _, n := range slices.Sorted(maps.Keys(resources)) {
		a := resources[n]
		switch {
		case a.Encrypted == nil:
		case !holds(a.Verification.Checksum):
			all = append(all, defect{wire.CodeMissing, "", strictjson.Show(n) + " is encrypted: it needs a checksum " +
				"of SHA256, of what is in the file"})
		case slices.ContainsFunc(a.URLs, IsTorrent):
			all = append(all, defect{wire.CodeBadValue, "", strictjson.Show(n) + " is encrypted: BitTorrent would " +
				"give what is in the file to other nodes; use http or https"})
		}
	}
	return all
}
