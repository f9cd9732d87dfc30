package app

import (
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
)

// publisherKeys reads the keys of --publisher-key: keys, or files with keys. The error is a *UsageError.
func (c Config) publisherKeys() (all publisher.Keys, err error) {
	const setting = "publisher-key"
	for _, text := range c.PublisherKeys {
		if k, err := publisher.ParseKey(text); err == nil {
			all = append(all, k)
			continue
		}
		data, err := durable.ReadFile(text, publisher.MaxFile)
		if err != nil {
			return nil, bad(setting, "neither a public key of minisign (56 letters of base64) nor a file: %v", err)
		}
		keys, err := publisher.ParseKeys(string(data))
		if err != nil {
			return nil, bad(setting, "file %s: %v", text, err)
		}
		all = append(all, keys...)
	}
	if n := len(all.IDs()); n > publisher.MaxKeys {
		return nil, bad(setting, "%d keys, of at most %d", n, publisher.MaxKeys)
	}
	return all, nil
}
