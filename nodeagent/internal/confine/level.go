package confine

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how far something is confined: one of Levels, each of which has what those before it have, and what is in
// force beside it, as in "landlock+user+net".
type Level string

// The levels.
const (
	None     Level = "none"     // not at all; "" likewise
	Basic    Level = "basic"    // no_new_privs, and a filter of system calls
	Files    Level = "files"    // Landlock: files of its Room alone, and no look into processes outside
	Landlock Level = "landlock" // and no signals or abstract sockets outside (Landlock from ABI 6, Linux 6.12)
)

// Container is the level of what is in a container, which confines it in other ways, beyond all of Levels.
const Container Level = "container"

// Levels are all of them, the least first.
var Levels = []Level{None, Basic, Files, Landlock}

// Extra is what can be in force beside each level.
type Extra string

// The extras, in the order in which they are written.
const (
	User Extra = "user" // its slot has a user of its own, who has no capabilities
	Net  Extra = "net"  // it cannot connect to what listens on this machine's loopback addresses
)

var extras = []Extra{User, Net}

// With is the level with an extra.
func (l Level) With(e Extra) Level {
	if l == "" {
		l = None
	}
	if l.Has(e) {
		return l
	}
	return l + "+" + Level(e)
}

// Has says whether a level has an extra.
func (l Level) Has(e Extra) bool {
	_, has, _ := strings.Cut(string(l), "+")
	return slices.Contains(strings.Split(has, "+"), string(e))
}

// AtLeast says whether l is as much as another one, with each extra that the other has.
func (l Level) AtLeast(other Level) bool {
	_, wanted, _ := strings.Cut(string(other), "+")
	for e := range strings.SplitSeq(wanted, "+") {
		if e != "" && !l.Has(Extra(e)) {
			return false
		}
	}
	return l.rank() >= other.rank()
}

// Demands says whether less than l is possible: it is not none.
func (l Level) Demands() bool { return !None.AtLeast(l) }

// rank is a level's place in Levels; that of one that is not known, as a newer program may have it, is beyond all.
func (l Level) rank() int {
	base, _, _ := strings.Cut(string(l), "+")
	if base == "" {
		return 0
	}
	if i := slices.Index(Levels, Level(base)); i >= 0 {
		return i
	}
	return len(Levels)
}

// Check says what is wrong with a level that somebody has written.
func (l Level) Check() error {
	if l == "" {
		return nil
	}
	base, rest, plus := strings.Cut(string(l), "+")
	good := slices.Contains(Levels, Level(base))
	for e := range strings.SplitSeq(rest, "+") {
		good = good && (!plus || slices.Contains(extras, Extra(e)))
	}
	if good {
		return nil
	}
	names := make([]string, len(Levels))
	for i, l := range Levels {
		names[i] = string(l)
	}
	return fmt.Errorf("%.40q: one of %s, perhaps with +%s or +%s behind it", string(l), strings.Join(names, ", "), User,
		Net)
}

// Room is what files somebody who is confined may reach, by absolute paths. Of what is not there, nothing is given.
// Links in a path are followed when the thread is confined.
type Room struct {
	Write []string `json:"write,omitempty"` // everything may be done, with all that is below
	Read  []string `json:"read,omitempty"`  // may be read, listed and executed, with all that is below
	Known []string `json:"known,omitempty"` // files in these may be read and executed, but not listed
}

// With returns a room that has the other's paths, too.
func (r Room) With(o Room) Room {
	return Room{slices.Concat(r.Write, o.Write), slices.Concat(r.Read, o.Read), slices.Concat(r.Known, o.Known)}
}

// System is what ordinary programs need of the system, and no secrets of others: programs, libraries, time, names of
// hosts and users, what vouches for servers, devices that are nobody's.
func System() Room {
	etc := []string{"alternatives", "ca-certificates", "ca-certificates.conf", "fonts", "gai.conf", "group",
		"host.conf", "hostname", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload",
		"locale.alias", "localtime", "machine-id", "mime.types", "nsswitch.conf", "os-release", "passwd",
		"pki/ca-trust", "pki/tls/certs", "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf",
		"terminfo", "timezone"}
	for i, name := range etc {
		etc[i] = "/etc/" + name
	}
	return Room{
		Write: []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"},
		Read: append(etc, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/gnu", "/nix",
			"/snap", "/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf"),
	}
}
