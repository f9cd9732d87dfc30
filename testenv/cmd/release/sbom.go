package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// licence is what notice.md says of a module.
type licence struct {
	version, name string // name: an SPDX expression
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\S+) \\| ([^|]+) \\| [^|]*\\|$")

// readNotice returns the modules in notice.md.
func readNotice(file string) (map[string]licence, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := map[string]licence{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = licence{m[2], m[3]}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: it lists no module", file)
	}
	return all, nil
}

// others are the modules of others in a program, as the program itself says.
func others(info *debug.BuildInfo) (all []*debug.Module) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" { // else it is of this repository
			all = append(all, m)
		}
	}
	return all
}

// sbom writes what a program is made of.
func (r *release) sbom(p *program) error {
	text, err := r.bill(p)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.out, "sbom")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.name+"_"+r.version+"_"+p.system+".cdx.json"), text, 0o644)
}

// bill is what a program is made of, with what else is beside it (CycloneDX, JSON). A module that notice.md does not
// have is refused.
func (r *release) bill(p *program, beside ...cdx.Component) ([]byte, error) {
	info, err := buildinfo.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	sum, err := hashOf(p.file)
	if err != nil {
		return nil, err
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), "-") // without experiments
	components := append([]cdx.Component{component("std", goVersion, "BSD-3-Clause")}, beside...)
	for _, m := range others(info) {
		l, ok := r.licences[m.Path]
		if !ok || l.version != m.Version {
			return nil, fmt.Errorf("%s %s is in it and not in notice.md: run make notice", m.Path, m.Version)
		}
		components = append(components, component(m.Path, m.Version, l.name))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	self := p.name + "_" + r.version + "_" + p.system
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.at.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: self, Type: cdx.ComponentTypeApplication, Name: p.name, Version: r.version,
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
			Properties: &[]cdx.Property{{Name: "tandem:system", Value: p.system}}},
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: self, Dependencies: &refs}}
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return text.Bytes(), err
}

func component(path, version, licence string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
		Licenses: &cdx.Licenses{{Expression: licence}}}
}

// hashOf is the SHA-256 of a file, in hexadecimal.
func hashOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", errors.Join(err, f.Close())
	}
	return hex.EncodeToString(h.Sum(nil)), f.Close()
}
