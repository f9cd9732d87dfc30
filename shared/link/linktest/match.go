package linktest

import "strings"

// Match reports whether a valid filter matches a valid topic (MQTT 3.1.1, section 4.7).
func Match(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		f, frest, fmore := strings.Cut(filter, "/")
		if f == "#" {
			return true
		}
		t, trest, tmore := strings.Cut(topic, "/")
		if f != "+" && f != t {
			return false
		}
		if !tmore {
			return !fmore || frest == "#"
		}
		if !fmore {
			return false
		}
		filter, topic = frest, trest
	}
}
