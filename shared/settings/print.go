package settings

import (
	"reflect"
	"strings"
)

// help returns the text of --help.
func help(program string, cfg Config, fields []*field) string {
	var b strings.Builder
	if u, ok := cfg.(Usager); ok {
		b.WriteString(strings.TrimRight(u.Usage(), "\n"))
		b.WriteString("\n\n")
	} else {
		example := " --config /etc/tandem/" + strings.TrimPrefix(program, "tandem-") + ".yaml"
		for _, f := range fields {
			if d := strings.Trim(f.def, `"`); typeName(f.ptr) == "string" && d != "" && !f.secret {
				example += " --" + f.name + " " + d
				break
			}
		}
		b.WriteString("Usage: " + program + " [flags]\n\nExample:\n  " + program + example + "\n\n")
	}
	b.WriteString("Flags win over variables, variables over the file, the file over the defaults.\n" +
		"The file is YAML and names the settings as the flags do, without the dashes.\n\n")
	for _, f := range fields {
		head, def := "  --"+f.name, f.def
		if kind := typeName(f.ptr); kind != "bool" {
			head += " <" + kind + ">"
		}
		if f.secret && def != `""` {
			def = "***"
		}
		b.WriteString(head + "\n")
		wrap(&b, f.help)
		wrap(&b, "Default "+def+"; variable "+f.env+".")
	}
	for _, l := range [][2]string{
		{"--config <file>", "Read settings from this YAML file; variable " + configEnv + "."},
		{"--print-config", "Print the effective settings as YAML, with where each came from, and exit."},
		{"--help, -h", "Print this and exit."},
		{"--version", "Print the version and exit."},
	} {
		b.WriteString("  " + l[0] + "\n")
		wrap(&b, l[1])
	}
	return b.String()
}

// wrap writes text in lines of at most 80 columns, indented under a flag.
func wrap(b *strings.Builder, text string) {
	const indent, width = "        ", 80
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+len(word) > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	if column > 0 {
		b.WriteByte('\n')
	}
}

// masked returns a value as YAML without what stands before the last @ of a URL: a user's name and password.
func masked(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return value
	}
	return scheme + "://***" + rest[at:]
}

// effective returns the text of --print-config: a settings file with the effective values. A secret is a comment
// without its value.
func effective(program, file string, fields []*field) string {
	var b strings.Builder
	b.WriteString("# " + program + " " + Version)
	if file != "" {
		b.WriteString(", file " + file)
	}
	b.WriteByte('\n')
	for _, f := range fields {
		value := f.shown()
		if value == hidden {
			b.WriteString("# " + f.name + ": ***  # " + f.source + "\n")
			continue
		}
		b.WriteString(f.name + ": " + value + "  # " + f.source + "\n")
	}
	return b.String()
}

// hidden stands where a secret is.
const hidden = "***"

// shown returns the setting's value as YAML, without what is secret of it.
func (f *field) shown() string {
	value := render(f.ptr)
	if f.secret && value != `""` && value != "[]" && value != "{}" {
		return hidden
	}
	return masked(value)
}

// Shown is a setting as anybody may see it.
type Shown struct {
	Name    string
	Value   string // as YAML; of a secret that is set ***
	Changed bool   // it is not at its default
}

// Show returns the settings of cfg, a pointer to a struct as Load takes it, in their order, without secrets.
func Show(cfg any) []Shown {
	now := reflect.New(reflect.TypeOf(cfg).Elem()).Elem()
	fields := collect(now, nil)
	now.Set(reflect.ValueOf(cfg).Elem())
	all := make([]Shown, len(fields))
	for i, f := range fields {
		all[i] = Shown{f.name, f.shown(), render(f.ptr) != f.def}
	}
	return all
}

// Text returns a settings file with those settings of cfg, a pointer to a struct as Load takes it, that are not at
// their defaults. Secrets are in it, in clear.
func Text(cfg any) []byte {
	now := reflect.New(reflect.TypeOf(cfg).Elem()).Elem()
	fields := collect(now, nil)
	now.Set(reflect.ValueOf(cfg).Elem())
	var b strings.Builder
	for _, f := range fields {
		if value := render(f.ptr); value != f.def {
			b.WriteString(f.name + ": " + value + "\n")
		}
	}
	return []byte(b.String())
}

// FromText fills cfg, a pointer to a struct as Load takes it, with a settings file's content, as Text returns it. The
// error is a *Error, which calls the file by its name.
func FromText(cfg any, name string, text []byte) error {
	return decodeFile("file ", name, text, collect(reflect.ValueOf(cfg).Elem(), nil), false)
}
