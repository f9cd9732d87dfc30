package app

import (
	"os"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/shared/durable"
)

// maxDecryptKeys is the most bytes of the file of --decrypt-key.
const maxDecryptKeys = 64 << 10

// decrypt is what opens files that are encrypted, with the keys of --decrypt-key; nil: there are none. The error is a
// *UsageError.
func (c *Config) decrypt(from fetch.NewDecrypt) (fetch.Decrypt, error) {
	const name = "decrypt-key"
	path := c.DecryptKey
	switch {
	case path == "":
		return nil, nil
	case from == nil:
		return nil, bad(name, "this agent is built without age: install the full agent, or leave the setting out")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, bad(name, "%v", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, bad(name, "others may read or change %s, which opens secrets: chmod 600 %[1]s", path)
	}
	keys, err := durable.ReadFile(path, maxDecryptKeys)
	if err != nil {
		return nil, bad(name, "%v", err)
	}
	open, err := from(keys)
	if err != nil {
		return nil, bad(name, "file %s: %v", path, err)
	}
	return open, nil
}
