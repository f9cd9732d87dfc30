package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image is a program as a container image. Each runs as user 65532, who owns nothing but /state and /run/tandem.
type image struct {
	name, about string
	env, cmd    []string
	ports       []string
}

// user is who runs in the images, and the group: nobody on any machine.
const user = 65532

// images are those that are made.
var images = []image{
	{name: "tandem", about: "Operates a Tandem unit: give it the controller's socket in /run/tandem, or --url."},
	{name: "tandem-controller", about: "Controller of a Tandem unit, with its broker. It keeps the unit in " +
		"/state, and its socket is in /run/tandem.",
		env:   []string{"TANDEM_STATE_DIR=/state", "TANDEM_LISTEN_TLS=:8883"},
		ports: []string{"8883/tcp", "8884/tcp"}},
	{name: "tandem-broker", about: "MQTT broker of a Tandem unit, apart from its controller.",
		ports: []string{"8883/tcp"}},
	{name: "tandem-node", about: "Agent of a node of a Tandem unit, in a container. It cannot do everything there: " +
		notInContainer + ".",
		env: []string{"TANDEM_STATE_DIR=/state", "TANDEM_ATTRIBUTE=image=" + notInContainer},
		cmd: []string{"launch", "--"}},
}

// notInContainer is what the agent in its image cannot do. The node reports it as its attribute "image"; a comma would
// divide it.
const notInContainer = "it makes no containers; restarts no machine; updates no components; has no shell for hooks; " +
	"its workloads end when it is updated or ends; CPU and RAM are those of the whole machine"

func makeImages(args []string, to io.Writer) error {
	o := newOptions("release images")
	packed := o.Bool("tar", false, "make one tar of each image, NAME_VERSION.oci.tar, and not a folder")
	all, err := o.read(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	roots, err := o.roots()
	if err != nil {
		return err
	}
	for _, i := range images {
		l, err := o.layout(&i, all, roots)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		name := filepath.Join(o.out, i.name)
		if *packed {
			err = o.writeTar(l, name+"_"+o.version+".oci.tar")
		} else {
			err = l.writeDir(name)
		}
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(to, "%s: %d images, version %s\n", o.out, len(images), o.version)
	return err
}

// platform is what the programs of a system run on; ok: it can be an image's.
func platform(system string) (p v1.Platform, ok bool) {
	p.OS, p.Architecture, _ = strings.Cut(system, "_")
	if arch, isARM := strings.CutSuffix(p.Architecture, "v7"); isARM {
		p.Architecture, p.Variant = arch, "v7"
	}
	return p, p.OS == "linux"
}

// roots is the layer below each program: what a program finds on any machine.
func (r *release) roots() (*layer, error) {
	notice, err := os.ReadFile(filepath.Join(r.docs, "notice.md"))
	if err != nil {
		return nil, err
	}
	var authorities strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file has no place for one
			if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	const passwd = "root:x:0:0:root:/:/sbin/nologin\n" +
		"tandem:x:65532:65532:Tandem:/state:/sbin/nologin\n" +
		"nobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	const group = "root:x:0:\ntandem:x:65532:\nnogroup:x:65534:\n"
	own := func(name string) file { return file{name: name, mode: 0o700, owner: user} }
	return r.pack("what programs find on any machine", []file{
		dir("dev/"), dir("etc/"), text("etc/group", group), text("etc/passwd", passwd), dir("etc/ssl/"),
		dir("etc/ssl/certs/"), text("etc/ssl/certs/ca-certificates.crt", authorities.String()), dir("proc/"),
		dir("run/"), text("run/.containerenv", ""), own("run/tandem/"), own("state/"), dir("sys/"),
		{name: "tmp/", mode: 0o1777}, dir("usr/"), dir("usr/share/"), dir("usr/share/doc/"),
		dir("usr/share/doc/tandem/"), text("usr/share/doc/tandem/notice.md", string(notice)),
	})
}

// rootsModule is where the certificates in each image are from, as this program itself says. They are Mozilla's.
func rootsModule() (cdx.Component, error) {
	const path = "golang.org/x/crypto/x509roots/fallback"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return component(path, m.Version, "BSD-3-Clause AND MPL-2.0"), nil
			}
		}
	}
	return cdx.Component{}, fmt.Errorf("this program does not know its version of %s: build it as a module", path)
}

// layout makes an image of a program, for every system that the program is there for.
func (r *release) layout(i *image, all []program, roots *layer) (*layout, error) {
	l := newLayout()
	var manifests []v1.Descriptor
	for _, p := range all {
		on, ok := platform(p.system)
		if p.name != i.name || !ok {
			continue
		}
		m, err := r.manifest(l, i, &p, on, roots)
		if err != nil {
			return nil, err
		}
		bill, err := r.referrer(l, &p, m)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, m, bill)
	}
	if len(manifests) == 0 {
		return nil, fmt.Errorf("there is no program %s for Linux", i.name)
	}
	index := v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: manifests, Annotations: r.annotations(i)}
	index.SchemaVersion = 2
	d, err := l.document(index.MediaType, index)
	if err != nil {
		return nil, err
	}
	// A tag has no +. Tools that copy images want one entry here.
	d.Annotations = map[string]string{v1.AnnotationRefName: i.name + ":" + strings.ReplaceAll(r.version, "+", "_")}
	return l, l.index(d)
}

func (r *release) annotations(i *image) map[string]string {
	return map[string]string{v1.AnnotationTitle: i.name, v1.AnnotationDescription: i.about,
		v1.AnnotationVersion: r.version, v1.AnnotationCreated: r.at.Format("2006-01-02T15:04:05Z")}
}

// manifest puts the image for one platform into a layout.
func (r *release) manifest(l *layout, i *image, p *program, on v1.Platform, roots *layer) (v1.Descriptor, error) {
	data, err := os.ReadFile(p.file)
	if err != nil {
		return v1.Descriptor{}, err
	}
	program, err := r.pack(i.name, []file{{name: i.name, mode: 0o755, data: data}})
	if err != nil {
		return v1.Descriptor{}, err
	}
	c := v1.Image{Created: &r.at, Platform: on}
	c.Config = v1.ImageConfig{User: fmt.Sprintf("%d:%[1]d", user), Env: i.env, Entrypoint: []string{"/" + i.name},
		Cmd: i.cmd, WorkingDir: "/", Labels: r.annotations(i), StopSignal: "SIGTERM"}
	if len(i.ports) > 0 {
		c.Config.ExposedPorts = map[string]struct{}{}
		for _, port := range i.ports {
			c.Config.ExposedPorts[port] = struct{}{}
		}
	}
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, Annotations: r.annotations(i)}
	m.SchemaVersion = 2
	c.RootFS.Type = "layers"
	for _, y := range []*layer{roots, program} {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, y.diffID)
		c.History = append(c.History, v1.History{Created: &r.at, CreatedBy: y.about})
		m.Layers = append(m.Layers, l.blob(v1.MediaTypeImageLayerGzip, y.packed))
	}
	if m.Config, err = l.document(v1.MediaTypeImageConfig, c); err != nil {
		return v1.Descriptor{}, err
	}
	d, err := l.document(m.MediaType, m)
	d.Platform = &on
	return d, err
}

// referrer puts the bill of materials of an image into a layout, as an artefact that refers to it.
func (r *release) referrer(l *layout, p *program, of v1.Descriptor) (v1.Descriptor, error) {
	const kind = "application/vnd.cyclonedx+json"
	roots, err := rootsModule()
	if err != nil {
		return v1.Descriptor{}, err
	}
	bill, err := r.bill(p, roots)
	if err != nil {
		return v1.Descriptor{}, err
	}
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: kind, Config: v1.DescriptorEmptyJSON,
		Layers: []v1.Descriptor{l.blob(kind, bill)}}
	m.SchemaVersion = 2
	m.Subject = &v1.Descriptor{MediaType: of.MediaType, Digest: of.Digest, Size: of.Size}
	l.blob(m.Config.MediaType, m.Config.Data)
	d, err := l.document(m.MediaType, m)
	d.ArtifactType = kind
	d.Platform = &v1.Platform{OS: "unknown", Architecture: "unknown"} // so that nothing takes it for an image
	return d, err
}
