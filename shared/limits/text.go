package limits

import (
	"fmt"
	"slices"
	"strings"
)

// idleMark is before the name of a file that nothing obeys.
const idleMark = "-"

// Text is what a node tells of its capabilities, for the controller to check constraints by while the node is offline:
// "none", or the version and the names of the control files that constraints are written to, sorted, with a "-" before
// those that nothing obeys now, such as "v2 cpu.max -io.weight memory.max". Why is left out.
func (c Capabilities) Text() string {
	if c.Version == None {
		return c.Version.String()
	}
	var files []string
	for _, list := range c.Files {
		for _, file := range list {
			if writable[file] {
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	for i, file := range files {
		if slices.Contains(c.Idle, file) {
			files[i] = idleMark + file
		}
	}
	return strings.Join(append([]string{c.Version.String()}, files...), " ")
}

// ParseCapabilities reads what Text has written. Files that this program does not know are kept. The error is of a
// text that begins with no version.
func ParseCapabilities(text string) (Capabilities, error) {
	version, files, _ := strings.Cut(text, " ")
	c := Capabilities{Files: map[string][]string{}}
	switch version {
	case None.String():
	case V1.String():
		c.Version = V1
	case V2.String():
		c.Version = V2
	default:
		return c, fmt.Errorf("%q is no version of control groups: none, v1 or v2", version)
	}
	for file := range strings.FieldsSeq(files) {
		file, idle := strings.CutPrefix(file, idleMark)
		if idle {
			c.Idle = append(c.Idle, file)
		}
		controller, _, _ := strings.Cut(file, ".")
		c.Files[controller] = append(c.Files[controller], file)
	}
	return c, nil
}

// writable are the control files that Map may write to.
var writable = func() map[string]bool {
	all := map[string]bool{"memory.swappiness": true}
	for _, v := range []Version{V1, V2} {
		for _, s := range Reset(Capabilities{Version: v, any: true}) {
			all[s.File] = true
		}
	}
	all["io.max"] = true
	for _, t := range throttles {
		all[t.v1] = true
	}
	return all
}()
