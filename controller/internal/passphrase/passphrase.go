// Package passphrase encrypts for somebody who remembers a passphrase.
package passphrase

import (
	"errors"

	"filippo.io/age"

	"tandem.internal/shared/race"
)

// Recipient returns who a passphrase encrypts for. To try one takes a second and 256 MiB: age's own measure, 2^18.
// Under the race detector that would be half a minute, and it takes less.
func Recipient(text string) (age.Recipient, error) {
	if text == "" {
		return nil, errors.New("an empty passphrase protects nothing")
	}
	r, err := age.NewScryptRecipient(text)
	if err != nil {
		return nil, err
	}
	if race.Enabled {
		r.SetWorkFactor(12)
	}
	return r, nil
}
