package workload

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Bounds of an Image.
const (
	MaxImage      = 256 << 10 // bytes of its file
	MaxLayers     = 127       // of an image
	MaxUnder      = 128       // of a container: those of its image, and the layers that its service needs
	maxImageWords = 4096      // arguments, variables
	maxImageText  = 128 << 10 // bytes of both together, each with its end
	maxUserID     = 1<<31 - 1 // larger numbers are negative to some
	imageDepth    = 2         // of its JSON
)

// LayerPrefix is what the names of resources begin with that are layers of an image. All others lie below them in its
// container, by their names.
const LayerPrefix = "layer."

// Image is how the program of an image is started, in the terms of the OCI image specification. In a configuration with
// a container runtime, HookStart is a file of it.
type Image struct {
	Layers []string `json:"layers"` // diff IDs of its own, the lowest first; each is a resource that is unpacked
	Args   []string `json:"args"`   // entry point and command
	Env    []string `json:"env,omitempty"`
	// Variables are the names of those that others than its publisher may set, where signatures are demanded.
	Variables []string `json:"variables,omitempty"`
	Dir       string   `json:"dir,omitempty"` // in which it begins, absolute; "": /
	// The user and group that it is in the container.
	UID        uint32 `json:"uid"`
	GID        uint32 `json:"gid"`
	StopSignal string `json:"stopSignal,omitempty"` // by which it is asked to end; "": SIGTERM
}

// StopSignals are the signals by which images may ask to be ended.
var StopSignals = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGKILL",
	"SIGRTMIN+3"}

// Encode is the file of an image. Equal images are equal bytes.
func (i *Image) Encode() []byte {
	data, err := json.Marshal(i, json.Deterministic(true))
	if err != nil {
		panic("workload: an image cannot be written: " + err.Error()) // texts and numbers
	}
	return append(data, '\n')
}

// DecodeImage reads the file of an image that whoever has released it has parsed: what a container cannot be made of is
// found when it is made.
func DecodeImage(data []byte) (i Image, err error) {
	return i, json.Unmarshal(data, &i, json.RejectUnknownMembers(true))
}

// ValidVariable reports whether properties can set a variable of this name; see EnvPrefix.
func ValidVariable(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != ""
}

// ParseImage reads the file of an image strictly.
func ParseImage(data []byte) (*Image, Problems) {
	i := &Image{}
	ps := strictjson.Read(data, strictjson.Limits{Size: MaxImage, Depth: imageDepth}, func(r *strictjson.Reader) {
		imageReader{r}.image(r.Here(), i)
	})
	if ps != nil {
		return nil, ps
	}
	return i, nil
}

type imageReader struct{ *strictjson.Reader }

func (r imageReader) image(a strictjson.At, i *Image) {
	number := func(dst *uint32) func(strictjson.At) {
		return func(a strictjson.At) {
			n, _ := r.Whole(a, 0, maxUserID, fmt.Sprintf("a user or group is a number from 0 to %d", maxUserID))
			*dst = uint32(n)
		}
	}
	r.Object(a,
		strictjson.Required("layers", r.texts(&i.Layers, 1, MaxLayers, func(s string) string {
			if !wire.ValidHash(s) {
				return strictjson.Show(s) + " is no digest: sha256: and 64 hexadecimal digits"
			}
			return ""
		})),
		strictjson.Required("args", r.texts(&i.Args, 1, maxImageWords, func(string) string { return "" })),
		strictjson.Optional("env", r.texts(&i.Env, 0, maxImageWords, func(s string) string {
			if strings.IndexByte(s, '=') < 1 {
				return strictjson.Show(s) + " is not NAME=VALUE"
			}
			return ""
		})),
		strictjson.Optional("variables", r.texts(&i.Variables, 0, maxImageWords, func(s string) string {
			if !ValidVariable(s) {
				return strictjson.Show(s) + " is no name of a variable: ASCII letters, digits and _"
			}
			return ""
		})),
		strictjson.Optional("dir", func(a strictjson.At) {
			var ok bool
			switch i.Dir, ok = r.Str(a); {
			case !ok:
			case !path.IsAbs(i.Dir) || path.Clean(i.Dir) != i.Dir || strings.Contains(i.Dir, "\n"):
				r.Bad(a, strictjson.Show(i.Dir)+" is no plain path from /")
			case strings.HasPrefix(i.Dir+"/", "/proc/"), strings.HasPrefix(i.Dir+"/", "/dev/"):
				r.Bad(a, strictjson.Show(i.Dir)+" is below /proc or /dev, where no container begins")
			}
		}),
		strictjson.Required("uid", number(&i.UID)), strictjson.Required("gid", number(&i.GID)),
		strictjson.Optional("stopSignal", func(a strictjson.At) {
			var ok bool
			if i.StopSignal, ok = r.Str(a); ok && !slices.Contains(StopSignals, i.StopSignal) {
				r.Bad(a, strictjson.Show(i.StopSignal)+" is none of "+strings.Join(StopSignals, ", "))
			}
		}))
	if len(i.Args) > 0 && i.Args[0] == "" && !r.Over() {
		r.Bad(a, "the program has no name")
	}
	size := len(i.Args) + len(i.Env)
	for _, words := range [][]string{i.Args, i.Env} {
		for _, w := range words {
			size += len(w)
		}
	}
	if size > maxImageText && !r.Over() {
		r.Bad(a, fmt.Sprintf("arguments and environment take %d bytes; %d are possible", size, maxImageText))
	}
}

// texts returns what reads least to most texts without zero bytes for which wrong says nothing.
func (r imageReader) texts(dst *[]string, least, most int, wrong func(string) string) func(strictjson.At) {
	return func(list strictjson.At) {
		r.Array(list, most, func(_ int, a strictjson.At) {
			s, ok := r.Str(a)
			switch why := wrong(s); {
			case !ok:
			case strings.IndexByte(s, 0) >= 0:
				r.Bad(a, "the text has a zero byte")
			case why != "":
				r.Bad(a, why)
			}
			*dst = append(*dst, s)
		})
		if len(*dst) < least && !r.Over() {
			r.Bad(list, fmt.Sprintf("there has to be %d at least", least))
		}
	}
}

// defects returns the reasons why resources cannot run in a container: the only hook is the file of the image, which
// somebody has named for good, and the others are layers.
func (c *Container) defects(resources map[string]Artifact) (all []defect) {
	if c == nil {
		return nil
	}
	bad := func(code wire.Code, why string) { all = append(all, defect{code, "", why}) }
	if c.Runtime == "" {
		if c.Network != "" {
			bad(wire.CodeBadValue, "a network is of a container, which names its runtime")
		}
		return all
	}
	for _, n := range slices.Sorted(maps.Keys(resources)) {
		a := resources[n]
		switch {
		case n == HookStart && a.Unpack != nil:
			bad(wire.CodeBadValue, n+" is the configuration of an image, and no file of an archive")
		case n == HookStart && !holds(a.Verification.Checksum):
			bad(wire.CodeMissing, n+" is the configuration of an image: it needs a checksum of SHA256")
		case n != HookStart && strings.HasPrefix(n, hookPrefix):
			bad(wire.CodeBadValue, "what runs in a container has no hook but "+HookStart+": "+strictjson.Show(n))
		case n != HookStart && a.Unpack == nil:
			bad(wire.CodeBadValue, strictjson.Show(n)+" is not unpacked: a container has layers only")
		}
	}
	return all
}

// container reads a container (seed 004, container).
func (p *parser) container(a strictjson.At, templates bool) *Container {
	c := &Container{}
	among := func(dst *string, known ...string) func(strictjson.At) {
		return func(a strictjson.At) {
			if s, ok := p.Str(a); ok && slices.Contains(known, s) {
				*dst = s
			} else if ok {
				p.Bad(a, "must be "+strictjson.Among(known)+", not "+strictjson.Show(s))
			}
		}
	}
	p.Object(a,
		strictjson.Optional("runtime", among(&c.Runtime, wire.ContainerRuntimes...)),
		strictjson.Optional("network", among(&c.Network, NodeNetwork)),
		strictjson.Optional("constraints", func(a strictjson.At) {
			given := p.Peek() == '{'
			c.Constraints = p.texts(a, "constraint", templates)
			if given && len(c.Constraints) == 0 && !p.stored {
				p.Add(a, wire.CodeMissing, "there is no constraint in it: name one, or leave it out")
			}
		}))
	return c
}
