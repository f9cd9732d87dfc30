package settings

import (
	"slices"
	"strings"
)

// Layer is a source of settings that all others but the defaults win over. The zero Layer has none.
type Layer struct {
	Where string   // its name, in errors and in --print-config
	Text  []byte   // YAML, as a file has it
	May   []string // settings that may stand in it
	Why   string   // others may not
}

// Names returns the settings that stand in the layer, in their order. The error is a *Error, also about one that may
// not stand there; it does not know the values.
func (l Layer) Names() (names []string, err error) {
	lines, err := parseFile(l.Where, l.Text)
	if err != nil {
		return nil, err
	}
	for _, e := range lines {
		if !slices.Contains(l.May, e.key.Value) {
			return nil, e.bad(l.Where, e.key.Line, l.Why+"; these may: "+strings.Join(l.May, ", "))
		}
		names = append(names, e.key.Value)
	}
	return names, nil
}

// fill sets what the layer names.
func (l Layer) fill(fields []*field) error {
	if _, err := l.Names(); err != nil {
		return err
	}
	return decodeFile("", l.Where, l.Text, fields, false)
}

// about says for --version what the layer has.
func (l Layer) about() string {
	names, err := l.Names()
	if err != nil || len(names) == 0 {
		return "" // what is wrong is said when it is used
	}
	return "settings that it brings: " + strings.Join(names, ", ") + "\n"
}
