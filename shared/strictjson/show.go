package strictjson

import (
	"slices"
	"strconv"
	"strings"
)

// Show quotes s for a message, shortened if it is long.
func Show(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// Among lists a few values for a message.
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
