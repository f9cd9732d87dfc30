package workloads

import (
	"encoding/hex"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// artefacts lists what the resources of a node's document may be fetched as from the controller: whatever their
// addresses, the checksum names the content, or the digest the encrypted file. A document that cannot be read names
// none.
func artefacts(node string, body []byte) (digests []string) {
	configs, problems := workload.ParseDocument(body, node)
	if len(problems) > 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, c := range configs {
		for _, r := range c.Resources {
			algorithm, sum, err := workload.ParseChecksum(r.Verification.Checksum)
			digest := wire.HashPrefix + hex.EncodeToString(sum)
			if r.Encrypted != nil {
				digest = r.Encrypted.Digest
			}
			if err == nil && algorithm == workload.SHA256 && !seen[digest] {
				seen[digest] = true
				digests = append(digests, digest)
			}
		}
	}
	return digests
}

// bodies calls each for every node that a set names.
func bodies(c kind.Content, each func(node string, b *kind.Body)) {
	p, _ := c.(*Placement)
	for _, node := range p.names() {
		each(node, p.of(node).body)
	}
}
