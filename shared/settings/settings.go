// Package settings reads a program's configuration: flags win over TANDEM_* variables, these over
// a YAML file, that over what the program itself has brought (LoadOver), and that over the defaults. The program's
// config struct is the reference: a tagged field is a setting, and the method Help has its text in --help.
//
//	type config struct {
//		Listen string `name:"listen" default:"127.0.0.1:1883"`
//		Token  string `name:"token" secret:"true"`
//	}
//
//	func (*config) Help() map[string]string {
//		return map[string]string{
//			"listen": "address of the embedded broker",
//			"token":  "what HTTP callers must present",
//		}
//	}
//
// Field types: string, bool, int, uint64, float64, time.Duration (Go syntax: 1m30s), []string and
// map[string]string. Embedded structs contribute their fields and texts. The variable of listen-http is
// TANDEM_LISTEN_HTTP; lists and maps in variables and defaults are separated by commas, flags of
// that type are repeated. A higher source replaces the whole list or map of a lower one. A field
// without a default tag keeps, as its default, the value that the struct was given with.
//
// Unknown flags, unknown or duplicate keys, and values of a wrong type are errors with their place. Unknown variables
// are no error, because they may be another program's. The package keeps no state. A feature that only one program
// needs does not belong here.
package settings

import (
	"errors"
	"io"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"time"

	"tandem.internal/shared/strictjson"
)

// Version is the version that --version prints. The build sets it with
// -ldflags "-X tandem.internal/shared/settings.Version=…".
var Version = "devel"

// ErrPrinted is returned after the answer to --help, --version or --print-config was written: the program exits with
// status 0.
var ErrPrinted = errors.New("answered")

// Error is a mistake in flags, variables or the file: a usage error, exit status 2.
type Error struct {
	Where   string // "--listen", "TANDEM_LISTEN" or "FILE:LINE"
	Key     string // the setting's name, when the place is in a file
	Message string
}

// Error returns place, key and message on one line.
func (e *Error) Error() string {
	if e.Key != "" {
		return e.Where + ": " + e.Key + ": " + e.Message
	}
	return e.Where + ": " + e.Message
}

// Config is a pointer to a struct whose fields are settings.
type Config interface {
	// Help returns the help text of each setting, by the setting's name. It must not use the fields.
	Help() map[string]string
}

// Usager is implemented by a Config with its own beginning of --help: usage line, purpose of the program, an example.
// Without it, usage line and example are made from the fields.
type Usager interface{ Usage() string }

// field is one setting. ptr points into the config; its dynamic type is one that set accepts.
type field struct {
	name, env, help string
	secret          bool
	stdin           bool // its flag only says that standard input has it
	ptr             any
	def             string // default as YAML
	source          string // where the value comes from, such as "flag --listen"
}

// redacted returns the message about a wrong value. If the setting is a secret, the message does not contain the value,
// because errors are logged.
func (f *field) redacted(why string) string {
	if !f.secret {
		return why
	}
	if isList(f.ptr) {
		return "want " + typeName(f.ptr) + "; what was given is not shown"
	}
	return "want a " + typeName(f.ptr) + ", in quotes if it is in a file; what was given is not shown"
}

// Stdin is the value of a flag that says that standard input has the setting: one of a field with the tag flag:"stdin".
const Stdin = "-"

const (
	configFlag = "config"
	configEnv  = "TANDEM_CONFIG"
)

// Load fills cfg and returns the arguments that are not flags. Flags may stand before, between and after
// them; "--" ends the flags. A variable that is set but empty counts as not set. The error is a *Error, or
// ErrPrinted when out already has the answer. Load panics on a struct that it cannot serve: a type that
// settings cannot have, a setting without a help text, or a help text without a setting.
func Load(program string, cfg Config, args []string, lookupEnv func(string) (string, bool),
	out io.Writer) (rest []string, err error) {
	return LoadOver(Layer{}, program, cfg, args, lookupEnv, out)
}

// LoadOver is Load with a layer below the file.
func LoadOver(below Layer, program string, cfg Config, args []string, lookupEnv func(string) (string, bool),
	out io.Writer) (rest []string, err error) {
	fields := collect(reflect.ValueOf(cfg).Elem(), nil)
	addHelp(fields, helpTexts(reflect.TypeOf(cfg).Elem()))
	flags, rest, builtin, err := scan(fields, args)
	if err != nil {
		return nil, err
	}
	if builtin["help"] != "" {
		return nil, printed(out, help(program, cfg, fields))
	}
	if builtin["version"] != "" {
		return nil, printed(out, program+" "+Version+" ("+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+")\n"+
			below.about())
	}
	if err := below.fill(fields); err != nil {
		return nil, err
	}
	file, err := take(fields, flags, builtin, lookupEnv, false)
	if err != nil {
		return nil, err
	}
	if builtin["print-config"] != "" {
		return nil, printed(out, effective(program, file, fields))
	}
	return rest, nil
}

// take sets fields to what file, variables and flags say, the later ones winning. some: the file may name others.
func take(fields []*field, flags map[*field][]string, builtin map[string]string,
	lookupEnv func(string) (string, bool), some bool) (file string, err error) {
	file, given := builtin[configFlag]
	if !given {
		file, _ = lookupEnv(configEnv)
	}
	if file != "" {
		if err := readFile(file, fields, some); err != nil {
			return file, err
		}
	}
	for _, f := range fields {
		text, ok := lookupEnv(f.env)
		if !ok || text == "" {
			continue
		}
		if why := set(f.ptr, split(f.ptr, text)); why != "" {
			return file, &Error{Where: f.env, Message: f.redacted(why)}
		}
		f.source = "env " + f.env
	}
	for _, f := range fields {
		texts, ok := flags[f]
		if !ok {
			continue
		}
		if why := set(f.ptr, texts); why != "" {
			return file, &Error{Where: "--" + f.name, Message: f.redacted(why)}
		}
		f.source = "flag --" + f.name
	}
	return file, nil
}

// Some fills cfg, a pointer to a struct as Load takes it, with a few of another program's settings. args are that
// program's, which may be a newer one: flags and keys that cfg does not name are passed over. The error is a *Error.
func Some(cfg any, args []string, lookupEnv func(string) (string, bool)) error {
	fields := collect(reflect.ValueOf(cfg).Elem(), nil)
	var known []string
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, is := strings.CutPrefix(args[i], "--")
		name, _, has := strings.Cut(name, "=")
		f := find(fields, name)
		if !is || f == nil && name != configFlag {
			continue
		}
		known = append(known, args[i])
		if !has && i+1 < len(args) && (f == nil || typeName(f.ptr) != "bool") {
			i++
			known = append(known, args[i])
		}
	}
	flags, _, builtin, err := scan(fields, known)
	if err == nil {
		_, err = take(fields, flags, builtin, lookupEnv, true)
	}
	return err
}

// Unexpected returns an error about the first of the arguments that a program does not take; nil if there are none.
// commands are the words that are allowed there, for a suggestion.
func Unexpected(rest, commands []string) error {
	if len(rest) == 0 {
		return nil
	}
	return errors.New("unexpected argument " + strictjson.Show(rest[0]) +
		nearest("", rest[0], commands, "--help shows the usage"))
}

// printed writes text to out and returns ErrPrinted.
func printed(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return &Error{Where: "output", Message: err.Error()}
	}
	return ErrPrinted
}

// collect appends the settings of a struct to fields and sets each to its default. It panics on a struct that settings
// cannot have.
func collect(v reflect.Value, fields []*field) []*field {
	t := v.Type()
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			fields = collect(v.Field(i), fields)
			continue
		}
		name := sf.Tag.Get("name")
		if name == "" {
			continue
		}
		f := &field{name: name, secret: sf.Tag.Get("secret") == "true", stdin: sf.Tag.Get("flag") == "stdin",
			env: "TANDEM_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name)),
			ptr: v.Field(i).Addr().Interface(), source: "default"}
		if find(fields, name) != nil || builtins[name] != "" {
			panic("settings: two settings are called " + name)
		}
		def, ok := sf.Tag.Lookup("default")
		if isList(f.ptr) && def == "" {
			ok = false
		}
		if ok {
			if why := set(f.ptr, split(f.ptr, def)); why != "" {
				panic("settings: default of " + name + ": " + why)
			}
		} else if typeName(f.ptr) == "" {
			panic("settings: " + name + " has a type that settings cannot have")
		}
		f.def = render(f.ptr)
		fields = append(fields, f)
	}
	return fields
}

// helpTexts returns the help texts of a struct type and of the structs that it embeds.
func helpTexts(t reflect.Type) map[string]string {
	texts := map[string]string{}
	for i := range t.NumField() {
		if sf := t.Field(i); sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			maps.Copy(texts, helpTexts(sf.Type))
		}
	}
	if c, ok := reflect.New(t).Interface().(Config); ok {
		maps.Copy(texts, c.Help())
	}
	return texts
}

// addHelp gives each field its help text. It panics unless there is exactly one text for each field.
func addHelp(fields []*field, texts map[string]string) {
	for _, f := range fields {
		if f.help = texts[f.name]; f.help == "" {
			panic("settings: " + f.name + " has no help text")
		}
	}
	for name := range texts {
		if find(fields, name) == nil {
			panic("settings: the help text of " + name + " has no setting")
		}
	}
}

// builtins are the flags that every program has, and the type of their value.
var builtins = map[string]string{configFlag: "file", "print-config": "bool", "help": "bool", "version": "bool"}

// scan returns the values in args of settings and of built-in flags, and the other arguments. The error is a *Error.
func scan(fields []*field, args []string) (flags map[*field][]string, rest []string, builtin map[string]string,
	err error) {
	flags, builtin = map[*field][]string{}, map[string]string{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return flags, append(rest, args[i+1:]...), builtin, nil
		}
		if arg == "-h" {
			arg = "--help"
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		shown := strings.TrimSuffix(arg, "="+value)
		f, kind := find(fields, name), builtins[name]
		if f != nil {
			kind = typeName(f.ptr)
		}
		if kind == "" || !strings.HasPrefix(arg, "--") || strings.HasPrefix(arg, "---") {
			return nil, nil, nil, &Error{Where: shown, Message: "no such flag" +
				suggest("--", name, fields, "--help lists them")}
		}
		if !has {
			if value = "true"; kind != "bool" {
				if i++; i == len(args) {
					return nil, nil, nil, &Error{Where: shown, Message: "needs a value: " + kind}
				}
				value = args[i]
			}
		}
		switch {
		case f != nil && f.stdin && value != Stdin:
			return nil, nil, nil, &Error{Where: shown, Message: "every user of this machine can read an argument: " +
				"give " + Stdin + " here and the " + f.name + " on standard input, or put it into " + f.env}
		case f == nil && kind == "bool" && has:
			return nil, nil, nil, &Error{Where: shown, Message: "takes no value"}
		case f == nil && value == "":
			return nil, nil, nil, &Error{Where: shown, Message: "needs a value: " + kind}
		case f == nil:
			builtin[name] = value
		case isList(f.ptr):
			flags[f] = append(flags[f], value)
		default:
			flags[f] = []string{value}
		}
	}
	return flags, rest, builtin, nil
}

// find returns the setting of that name, nil if there is none.
func find(fields []*field, name string) *field {
	for _, f := range fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// isList reports whether a setting is a list or a map, whose flag may be repeated.
func isList(ptr any) bool {
	switch ptr.(type) {
	case *[]string, *map[string]string:
		return true
	}
	return false
}

// split returns the values in the text of a variable or default: one, or several for a list or map.
func split(ptr any, text string) []string {
	if !isList(ptr) {
		return []string{text}
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}

// typeName is the name of a setting's type in help texts; "" if settings cannot have the type.
func typeName(ptr any) string {
	switch ptr.(type) {
	case *string:
		return "string"
	case *bool:
		return "bool"
	case *int:
		return "int"
	case *uint64:
		return "uint"
	case *float64:
		return "number"
	case *time.Duration:
		return "duration"
	case *[]string:
		return "string, repeatable"
	case *map[string]string:
		return "key=value, repeatable"
	}
	return ""
}
