package container

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// skeleton is the config.json of every container (OCI runtime specification 1.0.2, "Configuration"), with holes.
//
// What a container does not get by its seccomp is the same as of a hook that is confined (package confine). The flags
// of clone3 are in memory, where a filter does not see them: it is not there (38, ENOSYS), and callers fall back to
// clone.
// runc gives a tmpfs the mode of what it covers: so it is the user's own.
//
//go:embed config.json
var skeleton string

const rootName = "rootfs" // in the bundle

// config is the config.json of a container, whose environment has marks, too: of two variables of a name runtimes take
// the last. rootless says that the agent is not root,
// so that the container is in a user namespace in which the agent's user is that of the container.
func (s Spec) config(rootless bool, marks []string) (string, error) {
	uid, gid := strconv.Itoa(int(s.UID)), strconv.Itoa(int(s.GID))
	dir, spaces, more := s.Dir, "", ""
	if dir == "" {
		dir = "/"
	}
	var binds strings.Builder
	for _, b := range s.Binds {
		fmt.Fprintf(&binds, ",\n  {\"destination\": %s, \"type\": \"bind\", \"source\": %s, \"options\": [\"bind\", "+
			"\"nosuid\", \"nodev\", \"ro\"]}", quoted(b.Inside), quoted(b.Host))
	}
	if !s.HostNetwork {
		spaces += `, {"type": "network"}`
	}
	if rootless {
		spaces += `, {"type": "user"}`
		for _, m := range [][2]string{{"uid", uid}, {"gid", gid}} {
			more += "\n  \"" + m[0] + `Mappings": [{"containerID": ` + m[1] + `, "hostID": 0, "size": 1}],`
		}
	}
	if s.Group != "" {
		more += "\n  \"cgroupsPath\": " + quoted(s.Group) + ","
	}
	var lists [2]string
	for i, list := range [][]string{s.Args, append(slices.Clip(s.Env), marks...)} {
		data, err := json.Marshal(list)
		if err != nil {
			return "", fmt.Errorf("arguments and environment: %w", err)
		}
		lists[i] = string(data)
	}
	return strings.NewReplacer("@UID", uid, "@GID", gid, "@ARGS", lists[0], "@ENV", lists[1], "@DIR", quoted(dir),
		"@BINDS", binds.String(), "@SPACES", spaces, "@MORE", more).Replace(skeleton), nil
}

// quoted is a text in JSON; check has seen that it can be one.
func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic("container: " + err.Error())
	}
	return string(data)
}
