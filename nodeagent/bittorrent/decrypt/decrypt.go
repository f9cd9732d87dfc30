// Package decrypt opens files that are encrypted with age (age-encryption.org/v1). It is in the full agent only: the
// library would make the ordinary one larger than it may be
// (shared/docs/adr/073-encrypted-for-whom-the-owner-names.md).
package decrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"tandem.internal/nodeagent/internal/fetch"
)

// New makes what opens files for the keys in a file of age-keygen. It is a fetch.NewDecrypt.
func New(keys []byte) (fetch.Decrypt, error) {
	all, err := age.ParseIdentities(bytes.NewReader(keys))
	if err != nil {
		return nil, fmt.Errorf("not keys of age-keygen: %w", err)
	}
	return func(dst io.Writer, src io.Reader) error {
		content, err := age.Decrypt(src, all...)
		if none, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return errors.Join(fetch.ErrNotForUs, none)
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(dst, content)
		return err
	}, nil
}
