package app

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/nodeagent/internal/update/agentslot"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// PublisherSetting has the setting --publisher-key alone, for the launcher.
type PublisherSetting struct {
	PublisherKeys []string `name:"publisher-key"`
}

// Read reads the keys of --publisher-key. The error is a *UsageError.
func (c PublisherSetting) Read() (publisher.Keys, error) {
	return readKeys("publisher-key", c.PublisherKeys, publisher.MaxKeys)
}

// readKeys reads the keys of a setting: keys, or files with keys. The error is a *UsageError.
func readKeys(setting string, given []string, most int) (all publisher.Keys, err error) {
	for _, text := range given {
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
	if n := len(all.IDs()); n > most {
		return nil, bad(setting, "%d keys, of at most %d", n, most)
	}
	return all, nil
}

// unsigned says why no publisher vouches for what is staged of an update, as far as shows without reading it, or why it
// is not put in force any more; nil: one does, or nobody demands that.
func (a *Agent) unsigned(p *part, r update.Record) *wire.Error {
	if len(a.publishers) == 0 || r.Phase != update.Staged && r.Phase != update.Installing {
		return nil
	}
	err := error(nil)
	sig := publisher.Signature{}
	if !p.own {
		if err = p.store.Signed(r.Version, r.Signature, nil); err == nil {
			sig, err = publisher.Parse(r.Signature)
		}
	} else if st, serr := a.node.slots.Status(); serr != nil {
		err = serr
	} else if x, ok := agentslot.Waits(st, r.Version, r.Hash); ok { // else the verb says that it is in no slot
		sig, err = a.node.slots.Signed(x)
	}
	if err != nil {
		return failed(err)
	}
	return sig.Expired(a.deps.Now())
}

// publishersFile, in the state directory, has the keys of the agent's newest start for commands at the node, which do
// not know the agent's settings. It is no more than that: agent and launcher go by the settings.
const publishersFile = "publishers"

// sharePublishers writes that file.
func sharePublishers(dir string, keys publisher.Keys, steps durable.Steps) error {
	path := filepath.Join(dir, publishersFile)
	if len(keys) == 0 {
		return durable.Remove(path)
	}
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(k.String() + "\n")
	}
	if data, err := durable.ReadFile(path, publisher.MaxFile); err == nil && string(data) == text.String() {
		return nil
	}
	return durable.WriteFile(path, []byte(text.String()), 0o644, steps)
}

// SharedPublishers are the keys that the agent of a state directory has been started with.
func SharedPublishers(dir string) (publisher.Keys, error) {
	data, err := slot.OpenDisk(dir, nil).Read(publishersFile, publisher.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return publisher.ParseKeys(string(data))
}
