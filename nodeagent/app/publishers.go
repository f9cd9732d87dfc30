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
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// PublisherSetting has the settings --publisher-key and --floor alone, for the launcher.
type PublisherSetting struct {
	PublisherKeys []string `name:"publisher-key"`
	Floor         string   `name:"floor"`
}

// Read reads the keys of --publisher-key, and judges --floor. The error is a *UsageError.
func (c PublisherSetting) Read() (publisher.Keys, error) {
	if c.Floor != "" {
		if _, err := unitconfig.Compare(c.Floor, c.Floor); err != nil {
			return nil, bad("floor", "%s", wire.AsError(err).Message)
		}
	}
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

// publishersFile and floorFile, in the state directory, have the keys and the --floor of the agent's newest start for
// commands at the node, which do not know the agent's settings. They are no more than that: agent and launcher go by
// the settings.
const (
	publishersFile = "publishers"
	floorFile      = "floor"
)

// sharePublishers writes those files.
func sharePublishers(dir string, keys publisher.Keys, floor string, steps durable.Steps) error {
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(k.String() + "\n")
	}
	return errors.Join(share(filepath.Join(dir, publishersFile), text.String(), steps),
		share(filepath.Join(dir, floorFile), floor, steps))
}

// share makes a text the content of a file; "": there is none.
func share(path, text string, steps durable.Steps) error {
	if text == "" {
		return durable.Remove(path)
	}
	if data, err := durable.ReadFile(path, publisher.MaxFile); err == nil && string(data) == text {
		return nil
	}
	return durable.WriteFile(path, []byte(text), 0o644, steps)
}

// SharedPublishers are the keys and the floor that the agent of a state directory has been started with.
func SharedPublishers(dir string) (keys publisher.Keys, floor string, err error) {
	disk := slot.OpenDisk(dir, nil)
	text, err := disk.Read(publishersFile, publisher.MaxFile)
	if err == nil {
		keys, err = publisher.ParseKeys(string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	text, err = disk.Read(floorFile, publisher.MaxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	return keys, string(text), nil
}
