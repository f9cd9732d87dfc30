package apidoc

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// module is what the import paths of the workspace begin with.
const module = "tandem.internal/"

// source reads comments from the source of packages.
type source struct {
	root     string // of the workspace
	packages map[string]*comments
}

// comments of one package.
type comments struct {
	types  map[string]string            // by name
	fields map[string]map[string]string // by type and field
	values map[string][]value           // constants by type
}

type value struct{ text, comment string }

// of returns the comments of the package that has a type.
func (s *source) of(t reflect.Type) (*comments, error) {
	path, ok := strings.CutPrefix(t.PkgPath(), module)
	if !ok {
		return nil, fmt.Errorf("%s is not a type of the workspace; say what its JSON is", t)
	}
	if c, ok := s.packages[path]; ok {
		return c, nil
	}
	c, err := parse(filepath.Join(s.root, filepath.FromSlash(path)))
	if err == nil {
		s.packages[path] = c
	}
	return c, err
}

func parse(dir string) (*comments, error) {
	c := &comments{types: map[string]string{}, fields: map[string]map[string]string{}, values: map[string][]value{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				c.declaration(g)
			}
		}
	}
	return c, nil
}

func (c *comments) declaration(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			doc := text(s.Doc)
			if doc == "" {
				doc = text(g.Doc)
			}
			c.types[s.Name.Name] = doc
			if st, ok := s.Type.(*ast.StructType); ok {
				c.structure(s.Name.Name, st)
			}
		case *ast.ValueSpec:
			c.constant(s)
		}
	}
}

func (c *comments) structure(name string, st *ast.StructType) {
	fields := map[string]string{}
	for _, f := range st.Fields.List {
		doc := text(f.Comment)
		if doc == "" {
			doc = text(f.Doc)
		}
		for _, n := range f.Names {
			fields[n.Name] = doc
		}
	}
	c.fields[name] = fields
}

// constant remembers the value of a constant of a string type.
func (c *comments) constant(s *ast.ValueSpec) {
	of, ok := s.Type.(*ast.Ident)
	if !ok || len(s.Values) != 1 {
		return
	}
	lit, ok := s.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	if v, err := strconv.Unquote(lit.Value); err == nil && v != "" {
		c.values[of.Name] = append(c.values[of.Name], value{v, text(s.Comment)})
	}
}

// text is a comment on one line.
func text(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
