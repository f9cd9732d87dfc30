package confine

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how far something is confined. Each has what those before it have.
type Level string

// The levels.
const (
	None     Level = "none"     // not at all; "" likewise
	Basic    Level = "basic"    // no_new_privs, and a filter of system calls
	Files    Level = "files"    // Landlock: files of its Room alone, and no look into processes outside
	Landlock Level = "landlock" // and no signals or abstract sockets outside (Landlock from ABI 6, Linux 6.12)
)

// Levels are all of them, the least first.
var Levels = []Level{None, Basic, Files, Landlock}

// AtLeast says whether l is as much as another one.
func (l Level) AtLeast(other Level) bool { return l.rank() >= other.rank() }

// rank is a level's place in Levels; that of one that is not known, as a newer program may have it, is beyond all.
func (l Level) rank() int {
	if l == "" {
		return 0
	}
	if i := slices.Index(Levels, l); i >= 0 {
		return i
	}
	return len(Levels)
}

// Check says what is wrong with a level that somebody has written.
func (l Level) Check() error {
	if l == "" || slices.Contains(Levels, l) {
		return nil
	}
	names := make([]string, len(Levels))
	for i, l := range Levels {
		names[i] = string(l)
	}
	return fmt.Errorf("%.40q: one of %s", string(l), strings.Join(names, ", "))
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
