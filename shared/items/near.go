package items

import (
	"slices"

	"tandem.internal/shared/near"
)

// Near returns the end of a message about an item that is not there: of the known ones those of its codename, and else
// those of similar ones, of its type if there are some; "" if there are none, or too many. A type "" is any.
func Near(r Ref, known []Ref) string {
	var names []string
	for _, k := range known {
		if !slices.Contains(names, k.Codename) {
			names = append(names, k.Codename)
		}
	}
	found := near.All(r.Codename, names)
	var all, own []string
	for _, k := range known {
		if k == r || !slices.Contains(found, k.Codename) {
			continue
		}
		text := string(k.Type) + "/" + k.Codename
		all = append(all, text)
		if k.Type == r.Type {
			own = append(own, text)
		}
	}
	if len(own) > 0 {
		all = own
	}
	slices.Sort(all)
	return near.Suggest(all, "")
}
