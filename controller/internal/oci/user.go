package oci

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The files of users and groups in an image.
const (
	passwdFile = "etc/passwd"
	groupFile  = "etc/group"
)

// maxUser is the highest number of a user or group: container runtimes take a higher one for another, 0 among them
// (CVE-2024-40635).
const maxUser = 1<<31 - 1

// account is what a layer does to one of these files. No link is followed for it (CVE-2024-9676).
type account struct {
	hides bool   // what lower layers have is not there
	there bool   // the layer has it
	text  []byte // what it has
	odd   string // why that cannot be read
}

// account notes what an entry does to the files of users and groups, and gives the entry's content.
func (r *rewriter) account(e *entry, in io.Reader) (io.Reader, error) {
	for _, name := range []string{passwdFile, groupFile} {
		a := r.accounts[name]
		switch base := strings.TrimPrefix(name, "etc/"); e.name {
		case opaque, whitePrefix + "etc", "etc/" + opaque, "etc/" + whitePrefix + base:
			a.hides = true
		case "etc":
			if e.kind != typeDir {
				a.there, a.odd = true, "etc is no directory in the image"
			}
		case name:
			a.there = true
			switch {
			case e.kind != typeFile:
				a.odd = name + " is no file of its own in the image"
			case e.size > MaxAccounts:
				a.odd = name + " is too large to be read"
			default:
				text, err := io.ReadAll(io.LimitReader(in, e.size))
				if err != nil {
					return nil, err
				}
				a.text, in = text, bytes.NewReader(text)
			}
		}
		r.accounts[name] = a
	}
	return in, nil
}

// accountFile is one of the files as the layers leave it; odd says why it cannot be read, "" that it can.
func accountFile(name string, layers []*Layer) (lines []string, odd string) {
	odd = name + " is not in the image"
	var text []byte
	for _, l := range layers {
		a := l.accounts[name]
		if a.hides {
			text, odd = nil, name+" is not in the image"
		}
		if a.there {
			text, odd = a.text, a.odd
		}
	}
	if odd != "" {
		return nil, odd
	}
	return strings.Split(string(text), "\n"), ""
}

// findUser finds the user and group of a configuration: numbers, or names that the image's layers have. Without a group
// it is the user's own; 0 of a number that is nobody's.
func findUser(spec string, layers []*Layer) (u User, err error) {
	refuse := func(why string) error {
		return invalid("User", "%.80q: %s; a number, as in 1000:1000, needs no file", spec, why)
	}
	name, group, both := strings.Cut(spec, ":")
	if name == "" && !both {
		return User{}, nil
	}
	users, odd := accountFile(passwdFile, layers)
	if n, isNumber, err := number(name); err != nil {
		return u, invalid("User", "%.80q: %v", spec, err)
	} else if isNumber {
		u.UID = n
		if line := find(users, 2, name); line != nil {
			u.GID, _, err = number(line[3])
			if err != nil && !both {
				return u, invalid("User", "%.80q: in %s %v", spec, passwdFile, err)
			}
		}
	} else {
		line := find(users, 0, name)
		switch {
		case odd != "":
			return u, refuse(odd)
		case line == nil:
			return u, refuse("there is no such user in " + passwdFile)
		}
		if u.UID, u.GID, err = ids(line); err != nil {
			return u, invalid("User", "%.80q: in %s %v", spec, passwdFile, err)
		}
	}
	if !both {
		return u, nil
	}
	n, isNumber, err := number(group)
	if err != nil {
		return u, invalid("User", "%.80q: %v", spec, err)
	}
	if !isNumber {
		groups, odd := accountFile(groupFile, layers)
		line := find(groups, 0, group)
		switch {
		case odd != "":
			return u, refuse(odd)
		case line == nil:
			return u, refuse("there is no such group in " + groupFile)
		}
		if n, isNumber, err = number(line[2]); err != nil || !isNumber {
			return u, invalid("User", "%.80q: in %s it has no number that is taken", spec, groupFile)
		}
	}
	u.GID = n
	return u, nil
}

// find is the first line whose field is value. It has at least four fields, or is nil.
func find(lines []string, field int, value string) []string {
	for _, l := range lines {
		parts := strings.Split(strings.TrimSuffix(l, "\r"), ":")
		if len(parts) >= 4 && parts[field] == value && value != "" {
			return parts
		}
	}
	return nil
}

// ids are the numbers of a line of etc/passwd.
func ids(line []string) (uid, gid uint32, err error) {
	for i, to := range []*uint32{&uid, &gid} {
		n, isNumber, err := number(line[2+i])
		if err != nil {
			return 0, 0, err
		}
		if !isNumber {
			return 0, 0, invalid("", "the user has no numbers")
		}
		*to = n
	}
	return uid, gid, nil
}

// number reads the number of a user or group: digits alone. What begins otherwise is a name.
func number(s string) (n uint32, isNumber bool, err error) {
	if s == "" || slices.ContainsFunc([]byte(s), func(c byte) bool { return c < '0' || c > '9' }) {
		if s == "" || s[0] == '-' || s[0] == '+' {
			return 0, false, invalid("", "%.40q is neither a number nor a name", s)
		}
		return 0, false, nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v > maxUser {
		return 0, false, invalid("", "numbers of users and groups are at most %d", maxUser)
	}
	return uint32(v), true, nil
}
