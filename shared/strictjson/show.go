package strictjson

import (
	"slices"
	"strconv"
	"strings"
)

// Show returns s in quotes for a message: at most 64 bytes, then ….
func Show(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// Among returns up to eight values, sorted, for a message.
func Among(values []string) string {
	const most = 8
	if len(values) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) > most {
		return strings.Join(sorted[:most], ", ") + ", …"
	}
	return strings.Join(sorted, ", ")
}
