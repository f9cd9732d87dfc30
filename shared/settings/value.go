package settings

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/shared/near"
)

// set sets *ptr to the value of texts. It returns what is wrong with them, in words; "": nothing. texts has exactly one
// element unless the setting is a list or map.
func set(ptr any, texts []string) string {
	var err error
	text := ""
	if len(texts) > 0 {
		text = texts[0]
	}
	switch p := ptr.(type) {
	case *string:
		*p = text
	case *bool:
		switch text {
		case "true", "1":
			*p = true
		case "false", "0":
			*p = false
		default:
			return strconv.Quote(text) + " is neither true nor false"
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			return wrong(text, "a whole number", err)
		}
	case *uint64:
		if *p, err = strconv.ParseUint(text, 10, 64); err != nil {
			return wrong(text, "a whole number from 0", err)
		}
	case *float64:
		if *p, err = strconv.ParseFloat(text, 64); err != nil || math.IsInf(*p, 0) || math.IsNaN(*p) {
			return wrong(text, "a number", err)
		}
	case *time.Duration:
		if *p, err = time.ParseDuration(text); err != nil {
			return strconv.Quote(text) + " is not a duration such as 500ms, 90s or 1h30m"
		}
	case *[]string:
		*p = slices.Clone(texts)
	case *map[string]string:
		m := make(map[string]string, len(texts))
		for _, t := range texts {
			k, v, ok := strings.Cut(t, "=")
			if !ok || k == "" {
				return strconv.Quote(t) + " is not of the form key=value"
			}
			if _, twice := m[k]; twice {
				return "key " + strconv.Quote(k) + " appears twice"
			}
			m[k] = v
		}
		*p = m
	default:
		panic("settings: a type that settings cannot have")
	}
	return ""
}

// wrong returns the message about a number that strconv has refused.
func wrong(text, want string, err error) string {
	if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
		return text + " is out of range"
	}
	return strconv.Quote(text) + " is not " + want
}

// render returns a value as YAML.
func render(ptr any) string {
	switch p := ptr.(type) {
	case *string:
		return strconv.Quote(*p)
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *uint64:
		return strconv.FormatUint(*p, 10)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *time.Duration:
		return p.String()
	case *[]string:
		parts := make([]string, len(*p))
		for i, s := range *p {
			parts[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *map[string]string:
		parts := make([]string, 0, len(*p))
		for _, k := range slices.Sorted(maps.Keys(*p)) {
			parts = append(parts, strconv.Quote(k)+": "+strconv.Quote((*p)[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return ""
}

// suggest returns the end of a message about an unknown name: the nearest known name after prefix, or otherwise.
func suggest(prefix, name string, fields []*field, otherwise string) string {
	names := slices.Collect(maps.Keys(builtins))
	if prefix == "" {
		names = nil // the built-in flags are no keys of the file
	}
	for _, f := range fields {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return nearest(prefix, name, names, otherwise)
}

// nearest is as suggest, with known in place of the names of settings.
func nearest(prefix, name string, known []string, otherwise string) string {
	if n := near.Best(name, known); n != "" {
		return near.Suggest([]string{prefix + n}, "")
	}
	return near.Suggest(nil, otherwise)
}
