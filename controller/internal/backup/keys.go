package backup

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
)

// Recipients reads public keys of age.
func Recipients(keys []string) (all []age.Recipient, err error) {
	for _, key := range keys {
		if strings.Contains(strings.ToUpper(key), "AGE-SECRET-KEY-") { // never shown
			return nil, errors.New("it has a secret key of age, which opens backups and belongs to nobody else; the " +
				"public key, age1…, is wanted: age-keygen -y FILE prints it")
		}
		one, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil || len(one) != 1 {
			return nil, fmt.Errorf("%.80q is no public key of age, age1…: age-keygen -y FILE prints that of a key", key)
		}
		all = append(all, one...)
	}
	return all, nil
}

// Identities returns what opens a backup: the secret keys of a file of age-keygen, or a passphrase.
func Identities(file, passphrase string) ([]age.Identity, error) {
	if passphrase != "" {
		one, err := age.NewScryptIdentity(passphrase)
		return []age.Identity{one}, err
	}
	all, err := age.ParseIdentities(strings.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("it is no file of secret keys of age, as age-keygen writes it: %w", err)
	}
	return all, nil
}
